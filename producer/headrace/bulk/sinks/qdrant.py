"""A collection of Qdrant as a sink: of a server, or of the client's own storage, which is for small corpora.

A row is a point (qdrant_ids.py says which), its payload `id`, `hash` (hexadecimal, of the text) and, where the job
keeps texts, `text`. The card is in the collection's metadata, which servers keep from version 1.16 on.

The distance is Dot: for vectors of length one it is their cosine, and Qdrant keeps them as they are, whereas for Cosine
it would scale what it is given. Bits and signed bytes are refused, since Qdrant has neither: have it quantise floats
instead (quantization_config of the collection, which may be set at any time).

Knows collections and points. Does not know how Qdrant is reached (qdrant_place.py).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from headrace_contracts.messages import numpy_dtype
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Stored
from headrace.bulk.sinks.qdrant_ids import point_of
from headrace.bulk.sinks.qdrant_place import Place
from headrace.errors import CardMismatch, SinkError

_CARD = "headrace_card"
# Half of what a server takes or gives at once, unless told otherwise.
_MAX_REQUEST = 16_000_000
_DIMENSION_BYTES = 22  # of a float32 in JSON, as Python writes it
_ROW_BYTES = 300
_CHARACTER_BYTES = 6  # of an escaped one


class QdrantSink:
    """Vectors in a collection. Many processes may write to it at once, if it is a server's."""

    def __init__(self, place: str, collection: str) -> None:
        """Nothing is opened before `open`.

        Args:
            place: a URL such as http://localhost:6333 (with its key in the environment, QDRANT_API_KEY), a folder, or
                `:memory:`.
            collection: its name. It is made if absent.

        Raises:
            SinkError: they cannot be read.
        """
        if not collection:
            raise SinkError("the collection of Qdrant has no name: write one")
        self._place = Place(place)
        self._name = collection
        self._where = f"collection {collection} of {self._place.where}"
        self._client: QdrantClient | None = None
        self._opened: Card | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return f"qdrant:{self._place.name}#{self._name}"

    @property
    def is_one_corpus(self) -> bool:
        """It is not: rows stay until somebody deletes them."""
        return False

    @property
    def place(self) -> Path | None:
        """None: a collection is no folder of ours."""
        return None

    def open(self, card: Card, *, replace: bool) -> None:
        """Make the collection, or see that it goes with the card: see Sink.open.

        Qdrant can do no more than make and drop: of several processes that replace a collection, start one first.

        Raises:
            CardMismatch: it holds vectors of another card, and `replace` is false.
            SinkError: it is another program's, whether to be replaced or not; Qdrant has no such vectors, or cannot be
                reached.
        """
        if card.dtype not in {"f32", "f16"}:
            text = f"dtype={card.dtype}: Qdrant has no such elements: ask for f32 or f16, and have Qdrant quantise them"
            raise SinkError(text)
        if self._client is None:
            self._client = self._place.client()
        with self._place.reached():
            there = self._card(self._client)
            if there is not None and replace:
                try:
                    card.check(there, self._where)
                except CardMismatch:
                    self._client.delete_collection(self._name)
                    there = None
            if there is None:
                there = self._create(self._client, card)
        card.check(there, self._where)
        self._opened = card

    def write(self, part: Part) -> None:
        """Keep the fresh rows of a part: see Sink.write. They survive what Qdrant's write-ahead log survives.

        Raises:
            SinkError: it could not be kept, or an id cannot be a point.
        """
        rows = part.fresh.nonzero()[0].tolist()
        if not rows:
            return
        points: list[int | str | UUID] = [point_of(part.ids[row]) for row in rows]
        client, _ = self._checked()
        with self._place.reached():
            for first, last in _requests(part, rows):
                sent = rows[first:last]
                batch = models.Batch(
                    ids=points[first:last],
                    vectors=part.vectors[sent].astype(np.float32).tolist(),
                    payloads=[_payload(part, row) for row in sent],
                )
                client.upsert(self._name, batch, wait=True)

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids; those that cannot be points are not: see Sink.lookup.

        Raises:
            SinkError: it cannot be read.
        """
        client, card = self._checked()
        dtype = numpy_dtype(card.dtype)
        asked = dict(_points(ids))
        points = list(asked)
        most = max(1, _MAX_REQUEST // (card.dim * _DIMENSION_BYTES + _ROW_BYTES))
        found: dict[Id, Stored] = {}
        with self._place.reached():
            for first in range(0, len(points), most):
                records = client.retrieve(
                    self._name, points[first : first + most], with_payload=["hash"], with_vectors=True
                )
                for record in records:
                    stored = bytes.fromhex((record.payload or {}).get("hash", ""))
                    found[asked[record.id]] = Stored(stored, np.asarray(record.vector, np.float32).astype(dtype))
        return found

    def count(self) -> int:
        """Rows that are there.

        Raises:
            SinkError: it cannot be read.
        """
        client, _ = self._checked()
        with self._place.reached():
            return client.count(self._name, exact=True).count

    def finish(self, parts: Collection[str]) -> None:
        """Nothing is left to do: points have no part."""

    def close(self) -> None:
        """Let go of the client, and of its folder."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _checked(self) -> tuple[QdrantClient, Card]:
        """The client and the card of this job, if the collection still has it."""
        if self._client is None or self._opened is None:
            raise SinkError(f"{self._where} is not open: call open() first")
        with self._place.reached():
            there = self._card(self._client)
        if there is None:
            raise SinkError(f"{self._where} was dropped since it was opened: run the same command again")
        self._opened.check(there, self._where)
        return self._client, self._opened

    def _card(self, client: QdrantClient) -> Card | None:
        if not client.collection_exists(self._name):
            return None
        metadata = client.get_collection(self._name).config.metadata or {}
        if _CARD not in metadata:
            text = (
                f"{self._where} has no card of a bulk job in its metadata, so it is left alone: name another "
                "collection, or drop this one yourself. (A server before 1.16 keeps no metadata: update it)"
            )
            raise SinkError(text)
        return Card.from_json(json.dumps(metadata[_CARD]))

    def _create(self, client: QdrantClient, card: Card) -> Card:
        """Make the collection, unless another process was faster; the card that it has then."""
        vectors = models.VectorParams(
            size=card.dim,
            distance=models.Distance.DOT,
            datatype=models.Datatype.FLOAT16 if card.dtype == "f16" else None,
        )
        failed: Exception | None = None
        try:
            client.create_collection(self._name, vectors_config=vectors, metadata={_CARD: json.loads(card.to_json())})
        except (ApiException, ValueError) as error:  # perhaps since another process was faster: see what is there now
            failed = error
        there = self._card(client)
        if there is None:
            raise failed or SinkError(f"{self._where} was dropped while it was opened: run the same command again")
        return there


def _requests(part: Part, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of the rows, as many of them as a request may hold."""
    fixed = part.vectors.shape[1] * _DIMENSION_BYTES + _ROW_BYTES
    first, size = 0, 0
    for place, row in enumerate(rows):
        id_, text = part.ids[row], "" if part.texts is None else part.texts[row]
        needs = fixed + (len(text) + (len(id_) if isinstance(id_, str) else 0)) * _CHARACTER_BYTES
        if place > first and size + needs > _MAX_REQUEST:
            yield first, place
            first, size = place, 0
        size += needs
    yield first, len(rows)


def _payload(part: Part, row: int) -> dict[str, Any]:
    payload: dict[str, Any] = {"id": part.ids[row], "hash": part.hashes[row].hex()}
    if part.texts is not None:
        payload["text"] = part.texts[row]
    return payload


def _points(ids: Sequence[Id]) -> Iterator[tuple[Any, Id]]:
    for each in ids:
        try:
            yield point_of(each), each
        except SinkError:
            continue
