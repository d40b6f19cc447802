"""What is sent to other servers, how their replies are read, and how the one that we start is started and stopped."""

import os
import pickle
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import BENCH

sys.path.append(str(BENCH / "peers"))

import infinity_server
from http_dialects import Dialect, Infinity, Tei, Vllm, split_urls
from serve import Flags

INFINITY = Infinity("http://i", "vectors", "ranks")
VLLM = Vllm("http://e", "http://s", "vectors", "ranks", has_logits=True)
OLD_VLLM = Vllm("http://e", "http://s", "vectors", "ranks", has_logits=False)
TEI = Tei("http://e", "http://s", 32)
ALL: list[Dialect] = [INFINITY, VLLM, OLD_VLLM, TEI]
VECTORS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def openai_reply(*order: int) -> Any:
    """Vectors as OpenAI's route gives them, in some order."""
    return {"data": [{"index": place, "embedding": b64encode(VECTORS[place].tobytes()).decode()} for place in order]}


def ranking(field: str, *scores: float) -> list[Any]:
    """Documents as a reranker gives them: best first."""
    places = sorted(range(len(scores)), key=lambda place: -scores[place])
    return [{"index": place, field: scores[place]} for place in places]


def flags(tmp_path: Path, behaviour: str) -> Flags:
    """As an adapter gets them."""
    return Flags(embedder=tmp_path / behaviour, scorer=tmp_path, dtype="float32", threads=1, url=None, work=tmp_path)


@pytest.fixture
def fake_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infinity_server, "_MAIN", Path(__file__).with_name("fake_infinity.py"))
    monkeypatch.setattr(infinity_server, "_STOP_S", 0.2)
    monkeypatch.setattr(infinity_server, "python_of", lambda _: sys.executable)


@pytest.mark.parametrize(
    ("dialect", "url"),
    [(INFINITY, "http://i/embeddings"), (VLLM, "http://e/v1/embeddings"), (TEI, "http://e/embed")],
    ids=lambda part: type(part).__name__,
)
def test_texts_go_to_the_route_of_the_embedder(dialect: Dialect, url: str) -> None:
    request = dialect.to_embed(("a mill", "a river"))
    assert request.url == url
    assert ["a mill", "a river"] in request.body.values()


@pytest.mark.parametrize(
    ("dialect", "url"),
    [(INFINITY, "http://i/rerank"), (VLLM, "http://s/rerank"), (TEI, "http://s/rerank")],
    ids=lambda part: type(part).__name__,
)
def test_documents_go_to_the_route_of_the_scorer(dialect: Dialect, url: str) -> None:
    request = dialect.to_score("water", ("a mill", "a river"))
    assert (request.url, request.body["query"]) == (url, "water")
    assert ["a mill", "a river"] in request.body.values()


def test_texts_that_are_too_long_are_cut_and_not_refused() -> None:
    for body in (VLLM.to_embed(["a"]).body, VLLM.to_score("a", ["b"]).body):
        assert body["truncate_prompt_tokens"] == -1
    for body in (TEI.to_embed(["a"]).body, TEI.to_score("a", ["b"]).body):
        assert body["truncate"] is True


def test_raw_logits_are_asked_for() -> None:
    assert INFINITY.to_score("a", ["b"]).body["raw_scores"] is True
    assert TEI.to_score("a", ["b"]).body["raw_scores"] is True
    assert VLLM.to_score("a", ["b"]).body["use_activation"] is False


@pytest.mark.parametrize("dialect", [INFINITY, VLLM])
def test_base64_vectors_come_back_exactly_and_in_the_order_of_the_texts(dialect: Dialect) -> None:
    rows = dialect.read_rows(openai_reply(1, 0), 2)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, VECTORS)


def test_vectors_in_json_come_back_in_the_order_of_the_texts() -> None:
    rows = TEI.read_rows(VECTORS.tolist(), 2)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, VECTORS)


@pytest.mark.parametrize(
    ("dialect", "reply"),
    [
        (INFINITY, {"results": ranking("relevance_score", -1.5, 7, 2)}),
        (VLLM, {"results": ranking("relevance_score", -1.5, 7, 2)}),
        (TEI, ranking("score", -1.5, 7, 2)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_scores_come_back_in_the_order_of_the_documents(dialect: Dialect, reply: Any) -> None:
    scores = dialect.read_scores(reply, 3)
    assert scores.dtype == np.float32
    assert scores.tolist() == [-1.5, 7, 2]


def test_probabilities_are_made_logits_again() -> None:
    logits = np.array([-9, -0.5, 0, 3, 8])
    reply = {"results": ranking("relevance_score", *(1 / (1 + np.exp(-logits))))}
    np.testing.assert_allclose(OLD_VLLM.read_scores(reply, 5), logits, atol=1e-3)
    assert "probabilities" in OLD_VLLM.settings["scores"]


def test_a_probability_of_one_is_still_a_number() -> None:
    scores = OLD_VLLM.read_scores({"results": ranking("relevance_score", 1.0, 0.0)}, 2)
    assert np.isfinite(scores).all()


def test_a_reply_that_lacks_a_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="answered 3 texts with 2 rows"):
        INFINITY.read_rows(openai_reply(0, 1), 3)
    with pytest.raises(ValueError, match="answered 2 texts with 1 rows"):
        VLLM.read_rows(openai_reply(0, 0), 2)
    with pytest.raises(ValueError, match="answered 1 texts with 2 rows"):
        TEI.read_rows(VECTORS.tolist(), 1)


@pytest.mark.parametrize("dialect", ALL)
def test_a_dialect_can_be_sent_to_another_process(dialect: Dialect) -> None:
    assert pickle.loads(pickle.dumps(dialect)) == dialect  # noqa: S301 - our own


def test_models_are_found_by_what_they_can_do() -> None:
    models = {"data": [{"id": "b", "capabilities": ["rerank"]}, {"id": "a", "capabilities": ["embed"]}]}
    assert Infinity.of("http://i", models) == Infinity("http://i", "a", "b")
    del models["data"][0]
    with pytest.raises(ValueError, match=r"no model that can rerank, only \['a'\]"):
        Infinity.of("http://i", models)


def test_one_address_is_for_both_models_and_two_are_for_one_each() -> None:
    assert split_urls("http://a/") == ("http://a", "http://a")
    assert split_urls("http://a,http://b/") == ("http://a", "http://b")
    with pytest.raises(ValueError, match="--url is missing"):
        split_urls(None)


@pytest.mark.usefixtures("fake_infinity")
@pytest.mark.parametrize("behaviour", ["ready", "stubborn"])
def test_a_server_is_there_while_the_context_lasts(tmp_path: Path, behaviour: str) -> None:
    with infinity_server.running(flags(tmp_path, behaviour), 16) as url:
        assert url == "http://127.0.0.1:4711"
        (child,) = children()
    assert children() == []
    assert not Path(f"/proc/{child}").exists()
    assert "a line before" in (tmp_path / "infinity.log").read_text()


@pytest.mark.usefixtures("fake_infinity")
def test_a_server_is_stopped_when_its_user_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), infinity_server.running(flags(tmp_path, "ready"), 16):
        1 / 0  # noqa: B018
    assert children() == []


@pytest.mark.usefixtures("fake_infinity")
def test_a_server_that_does_not_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"(?s)ended before it was ready.*no such model"),
        infinity_server.running(flags(tmp_path, "dying"), 16),
    ):
        pytest.fail("it started")
    assert children() == []


def children() -> list[str]:
    """Processes whose parent is this one and that run the fake."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [child for child in found if "fake_infinity" in Path(f"/proc/{child}/cmdline").read_text()]
