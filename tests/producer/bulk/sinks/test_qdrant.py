"""A collection of Qdrant as a sink, and what only it can get wrong."""

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid5

import pytest
from headrace.bulk.rows import Id
from headrace.bulk.sinks import qdrant
from headrace.bulk.sinks.qdrant import QdrantSink
from headrace.bulk.sinks.qdrant_ids import NEGATIVE, STRINGS, point_of
from headrace.errors import CardMismatch, SinkError
from headrace_contracts.messages import Dtype
from qdrant_client import QdrantClient, models

from ..finite_parts import part
from ..parts import CARD, assert_holds, card


@pytest.fixture
def sink() -> Iterator[QdrantSink]:
    made = QdrantSink(":memory:", "vectors")
    made.open(CARD, replace=False)
    yield made
    made.close()


def test_a_reader_sees_points_with_the_id_and_text_in_their_payload(tmp_path: Path) -> None:
    sink = QdrantSink(str(tmp_path), "vectors")
    sink.open(CARD, replace=False)
    one = part([7, -7, "seven"], with_texts=True)
    sink.write(one)
    sink.close()
    client = QdrantClient(path=str(tmp_path))
    points: list[int | str | UUID] = [7, str(uuid5(NEGATIVE, "-7")), str(uuid5(STRINGS, "seven"))]
    found = {record.id: record.payload for record in client.retrieve("vectors", points)}
    assert found == {
        point: {"id": id_, "hash": hash_.hex(), "text": f"text 0 of {id_}"}
        for point, id_, hash_ in zip(points, one.ids, one.hashes, strict=True)
    }
    metadata: dict[str, Any] = client.get_collection("vectors").config.metadata or {}
    assert metadata["headrace_card"]["fingerprint"] == CARD.fingerprint
    client.close()


def test_ids_of_both_kinds_are_different_points() -> None:
    ids: list[Id] = [0, 1, 2**63 - 1, -1, -(2**63), "0", "1", "-1", "", "a", "A"]
    assert len({point_of(each) for each in ids}) == len(ids)
    assert [point_of(each) for each in ids[:3]] == ids[:3]


@pytest.mark.parametrize("each", [True, 2**63, -(2**63) - 1, "\ud800"])
def test_an_id_that_can_be_no_point_is_named(each: int | str) -> None:
    with pytest.raises(SinkError, match="cannot be a point of Qdrant"):
        point_of(each)


@pytest.mark.parametrize("dtype", ["i8", "b1"])
def test_elements_that_qdrant_does_not_have_are_refused_with_what_would_do(dtype: Dtype) -> None:
    sink = QdrantSink(":memory:", "vectors")
    with pytest.raises(SinkError, match=f"dtype={dtype}: .* ask for f32 or f16"):
        sink.open(card(dtype), replace=False)
    sink.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_collection_that_no_bulk_job_has_made_is_left_alone(tmp_path: Path, replaced: bool) -> None:
    client = QdrantClient(path=str(tmp_path))
    client.create_collection("vectors", models.VectorParams(size=2, distance=models.Distance.COSINE))
    client.close()
    sink = QdrantSink(str(tmp_path), "vectors")
    with pytest.raises(SinkError, match="no card of a bulk job"):
        sink.open(CARD, replace=replaced)
    sink.close()
    client = QdrantClient(path=str(tmp_path))
    assert client.collection_exists("vectors")
    client.close()


def test_what_another_job_has_replaced_meanwhile_gets_no_more_vectors_of_this_one(sink: QdrantSink) -> None:
    client = sink._client
    assert client is not None
    other = QdrantSink(":memory:", "vectors")
    other._client = client
    other.open(replace(CARD, fingerprint="0" * 16), replace=True)
    for call in (lambda: sink.write(part([7])), sink.count, lambda: sink.lookup([1])):
        with pytest.raises(CardMismatch, match="fingerprint"):
            call()
    client.delete_collection("vectors")
    with pytest.raises(SinkError, match="was dropped since it was opened"):
        sink.write(part([7]))


def test_a_part_goes_out_in_requests_of_a_bounded_size(sink: QdrantSink, monkeypatch: pytest.MonkeyPatch) -> None:
    row = CARD.dim * 22 + 300
    monkeypatch.setattr(qdrant, "_MAX_REQUEST", 3 * row)
    one = part(range(10))
    assert list(qdrant._requests(one, range(10))) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    long = replace(one, texts=["", "x" * 10_000, "", *[""] * 7])
    assert list(qdrant._requests(long, range(10)))[:3] == [(0, 1), (1, 2), (2, 5)]
    sink.write(one)
    assert_holds(sink, one)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the client leaves the lock's to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # which says so in this way
def test_a_folder_that_another_has_open_is_refused(tmp_path: Path) -> None:
    first, second = QdrantSink(str(tmp_path), "a"), QdrantSink(str(tmp_path), "b")
    first.open(CARD, replace=False)
    with pytest.raises(SinkError, match="already accessed by another instance"):
        second.open(CARD, replace=False)
    first.close()
    second.open(CARD, replace=False)
    second.close()


def test_a_folder_that_is_none_or_is_spoiled_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "spoiled").mkdir()
    (tmp_path / "spoiled" / "meta.json").write_text("{")
    for name in ("file", "spoiled", "file/below"):
        with pytest.raises(SinkError, match=name):
            QdrantSink(str(tmp_path / name), "vectors").open(CARD, replace=False)


@pytest.mark.parametrize("name", ["a/b", "a:b", "nul\0"])
def test_a_collection_that_can_have_no_such_name_is_an_error(name: str) -> None:
    sink = QdrantSink(":memory:", name)
    with pytest.raises(SinkError, match="name"):
        sink.open(CARD, replace=False)
    sink.close()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("localhost:6333", "write http://localhost:6333"),
        ("", "is no folder"),
        ("ftp://host/", "of the kind ftp"),
        ("http://", "of the kind http"),
        ("http://host:port", "cannot be read"),
        ("http://me:s3cret@host:6333", "give a key as QDRANT_API_KEY"),
        ("https://host:6333/?api_key=s3cret", "give a key as QDRANT_API_KEY"),
        ("http://[::1", "cannot be read"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once_without_what_may_be_a_key(place: str, why: str) -> None:
    with pytest.raises(SinkError, match=why) as caught:
        QdrantSink(place, "vectors")
    assert "s3cret" not in str(caught.value)


def test_its_name_is_another_for_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert QdrantSink("here", "vectors").name == f"qdrant:{tmp_path}/here#vectors"
    assert QdrantSink("http://db.local:6333/", "vectors").name == "qdrant:http://db.local:6333#vectors"
    assert QdrantSink(":memory:", "vectors").name == "qdrant::memory:#vectors"


def test_a_collection_without_a_name_is_refused() -> None:
    with pytest.raises(SinkError, match="has no name"):
        QdrantSink(":memory:", "")


def test_a_server_that_does_not_answer_is_named() -> None:
    sink = QdrantSink("http://127.0.0.1:1", "vectors")
    with pytest.raises(SinkError, match=r"Qdrant \(http://127.0.0.1:1\) does not answer .* see that it runs"):
        sink.open(CARD, replace=False)
    sink.close()


def test_a_server_that_refuses_is_given_the_key_of_the_environment_and_no_error_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
    with refusing(403, "forbidden") as (url, keys):
        sink = QdrantSink(url, "vectors")
        with (
            pytest.warns(UserWarning, match="insecure connection"),
            pytest.raises(SinkError, match=r"answered 403 \(forbidden\): set QDRANT_API_KEY") as caught,
        ):
            sink.open(CARD, replace=False)
        sink.close()
    assert set(keys) == {"s3cret"}
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_sink_that_was_not_opened_says_so() -> None:
    with pytest.raises(SinkError, match=r"call open\(\) first"):
        QdrantSink(":memory:", "vectors").count()


@contextmanager
def refusing(status: int, why: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that refuses all, as Qdrant words it; its URL, and the keys it was given."""
    keys: list[str | None] = []

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["api-key"])
            body = json.dumps({"status": {"error": why}, "time": 0}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            thread.join()
