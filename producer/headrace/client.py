"""The client: texts in, vectors out, over NATS.

Knows the order of a call: check, tokenise, split, publish, gather. Each word has a file of its own. Needs nothing but
the URL of a nats-server: tokenizer and limits come from the fleet.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Iterable
from itertools import count
from types import TracebackType
from typing import Self

import numpy as np
from headrace_contracts import (
    Chunk,
    Dtype,
    ErrorCode,
    ModelSpec,
    Options,
    Priority,
    Reply,
    TokenIds,
    connection,
    encode_chunk,
    subjects,
)
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient

from headrace.catalogue import Catalogue, Model
from headrace.chunking import split
from headrace.embeddings import Embeddings
from headrace.errors import ConnectionFailed, ItemError, ModelChanged, from_code
from headrace.exchange import Deadline, Exchange, Outgoing
from headrace.gather import Gathering
from headrace.options import EmbedOptions
from headrace.texts import read_texts

# Codes that say something about the texts of a chunk; the other chunks of the call are not concerned.
_ABOUT_THE_CHUNK = frozenset({ErrorCode.INVALID, ErrorCode.TOO_LONG, ErrorCode.NON_FINITE, ErrorCode.INTERNAL})


class Client:
    """A connection to the fleet; one serves any number of concurrent calls and models.

    `client = await Client.connect(url)`, and close it later; or `async with await Client.connect(url) as client`.
    """

    def __init__(self, nats: NatsClient, link: Link, client_id: str) -> None:
        """Use `connect`."""
        self._nats = nats
        self._id = client_id
        self._link = link
        self._catalogue = Catalogue(nats)
        self._exchange = Exchange(nats, link, subjects.inbox(client_id))
        self._turn = count()

    @classmethod
    async def connect(cls, url: str = "nats://127.0.0.1:4222", *, timeout: float = 5) -> Self:
        """Connect to a nats-server.

        Args:
            url: one URL, or several of one cluster with commas between.
            timeout: seconds for the first connection. A lost connection is sought until the client is closed, and calls
                that wait live through it.

        Raises:
            ConnectionFailed: nothing answers, or the server is too old.
        """
        client_id = secrets.token_hex(8)
        try:
            nats, link = await connection.connect(
                url, name="headrace client", inbox=subjects.inbox(client_id), timeout_s=timeout
            )
        except connection.Unreachable as error:
            raise ConnectionFailed(f"{error}: start one with `headrace up`, or check the URL") from error
        except connection.ServerTooOld as error:
            raise ConnectionFailed(str(error)) from error
        client = cls(nats, link, client_id)
        await client._exchange.open()
        return client

    async def close(self) -> None:
        """Close the connection; calls that still wait raise ConnectionFailed."""
        with contextlib.suppress(OSError):  # it was lost already
            await self._nats.close()
        self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def models(self) -> list[ModelSpec]:
        """The models that the fleet has published, by name."""
        return await self._catalogue.specs()

    async def embed(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype = "f32",
        normalize: bool | None = None,
        timeout: float | None = None,
        truncate: bool = True,
        strict: bool = False,
    ) -> Embeddings:
        """Embed texts.

        A str is one text and gives one vector [dim]; any other iterable of str gives [n, dim] in its order, and an
        empty one [0, dim]. None, bytes and items that are not str raise InputError. Empty, blank and NUL-carrying
        texts are texts like others and get the vector that the model gives them; a lone surrogate is read as U+FFFD.
        A text may be of any size; what exceeds the model's max_length is cut off or refused, as `truncate` says.

        Args:
            texts: what to embed.
            model: served name; may be left out while the fleet serves one model.
            priority: "online" is served first and refused when the queue is full; "batch" waits for room.
            prompt_name: one of the model's prompts to put before each text; None takes the model's default, if any.
            dim: leading dimensions to keep; needs a model trained for it (Matryoshka).
            dtype: element type of the vectors, "f32" or "f16".
            normalize: scale vectors to length one; None does what the checkpoint says.
            timeout: seconds for the whole call; None is 30 for online and 3600 for batch.
            truncate: cut long texts and list them in `.truncated`; if false they have no vector and an entry in
                `.errors`.
            strict: raise if any text has no vector.

        Returns:
            A NumPy array that also has `.usage`, `.truncated` and `.errors`. A text without a vector has a row of NaN
            and its reason in `.errors`; it does not fail the others. A single text without a vector raises.

        Raises:
            InputError: an argument is wrong; nothing was sent.
            ModelNotFound: the fleet does not serve the model.
            Overloaded: the online queue is full.
            DeadlineExceeded: the timeout passed.
            ItemsFailed: `strict`, or the only text, and it has no vector.
            RequestFailed: the fleet refused or failed a chunk for another reason.
            ConnectionFailed: the client is closed.
        """
        options = EmbedOptions(
            priority=priority,
            prompt_name=prompt_name,
            dim=dim,
            dtype=dtype,
            normalize=normalize,
            timeout=timeout,
            truncate=truncate,
            strict=strict,
        )
        items, is_single = read_texts(texts)
        deadline = Deadline.after(options.timeout_s)
        chosen = await self._model(model, deadline)
        try:
            vectors = await self._embed(items, chosen, options, deadline)
        except ModelChanged:
            # The fleet moved to another revision since the model was read: tokenise for that one.
            self._catalogue.forget(chosen.spec.name)
            vectors = await self._embed(items, await self._model(chosen.spec.name, deadline), options, deadline)
        if strict or is_single:
            vectors.raise_errors()
        return vectors.single() if is_single else vectors

    async def _model(self, name: str | None, deadline: Deadline) -> Model:
        """The model, read from the fleet if this client has not seen it yet."""
        try:
            async with asyncio.timeout_at(deadline.loop_s):
                await self._link.up.wait()
                return await self._catalogue.model(name)
        except TimeoutError:
            raise from_code(ErrorCode.EXPIRED, "the model could not be read from the fleet in time") from None

    async def _embed(self, texts: list[str], model: Model, options: EmbedOptions, deadline: Deadline) -> Embeddings:
        """Tokenise, split, publish, gather."""
        spec, wanted = model.spec, options.for_model(model.spec)
        prompt = options.prompt(spec)
        tokenized = await model.tokenizer([prompt + text for text in texts] if prompt else texts)
        gathering = Gathering(len(texts), wanted.dim or spec.dim, wanted.dtype)
        cut = np.flatnonzero(tokenized.truncated).tolist()
        sent = list(range(len(texts)))
        if not options.truncate:
            for index in cut:
                text = f"{tokenized.full_lengths[index]} tokens: max_length of {spec.name} is {spec.max_length}"
                gathering.fail(index, ItemError(ErrorCode.TOO_LONG, text))
            sent = sorted(set(sent) - set(cut))
        lengths = [len(tokenized.sequences[index]) for index in sent]
        runs = split(lengths, max_tokens=spec.max_chunk_tokens, max_items=spec.max_chunk_items)
        try:
            async with asyncio.TaskGroup() as tasks:
                for run in runs:
                    indices = sent[run.start : run.stop]
                    chunk = _chunk([tokenized.sequences[index] for index in indices], spec, wanted)
                    tasks.create_task(self._ask(chunk, spec, indices, options.priority, deadline, gathering))
        except ExceptionGroup as failed:
            # One failure fails the call, and the other chunks were given up for it.
            raise failed.exceptions[0] from None
        return gathering.finish(tuple(cut) if options.truncate else ())

    async def _ask(
        self,
        chunk: Chunk,
        spec: ModelSpec,
        indices: list[int],
        priority: Priority,
        deadline: Deadline,
        gathering: Gathering,
    ) -> None:
        """Publish one chunk and take in its reply."""
        reply = await self._exchange.ask(
            Outgoing(
                subject=self._subject(spec, priority),
                body=encode_chunk(chunk),
                chunk_id=chunk.id,
                tokens=chunk.num_tokens,
                priority=priority,
                deadline=deadline,
            )
        )
        if isinstance(reply, Reply):
            gathering.put(indices, reply)
        elif reply.code in _ABOUT_THE_CHUNK:
            for index in indices:
                gathering.fail(index, ItemError(reply.code, reply.text))
        else:
            raise from_code(reply.code, reply.text, reply.retry_ms)

    def _subject(self, spec: ModelSpec, priority: Priority) -> str:
        if priority == "batch":
            return subjects.batch(spec.name, self._id)
        return subjects.online(spec.name, next(self._turn) % spec.shards)


def _chunk(sequences: list[TokenIds], spec: ModelSpec, options: Options) -> Chunk:
    return Chunk(
        id=secrets.token_hex(12),
        task="embed",
        model=spec.name,
        fingerprint=spec.fingerprint,
        lengths=np.fromiter(map(len, sequences), np.uint32, len(sequences)),
        token_ids=np.concatenate(sequences),
        options=options,
    )
