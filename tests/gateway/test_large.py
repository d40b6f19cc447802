"""Large requests and answers: in pieces, and the same as if they were whole."""

import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from headrace import SyncClient
from headrace_engine import Engine
from tokenizers import Tokenizer

from ..conftest import DEMO_MODEL
from .running import Running


def sequences() -> list[list[int]]:
    """Token ids that come to more than 64 kB of JSON."""
    ids: list[list[int]] = np.random.default_rng(0).integers(10_000, 30_000, (120, 100)).tolist()
    return ids


@pytest.mark.parametrize(("path", "field"), [("/v1/embeddings", "input"), ("/embed", "inputs")])
def test_many_token_ids_have_the_vectors_of_our_client(
    http: httpx.Client, client: SyncClient, path: str, field: str
) -> None:
    reply = http.post(path, json={field: sequences(), "model": DEMO_MODEL, "dimensions": 64})
    assert reply.status_code == 200, reply.text
    found = [item["embedding"] for item in reply.json()["data"]] if path == "/v1/embeddings" else reply.json()
    np.testing.assert_allclose(found, client.embed_ids(sequences(), model=DEMO_MODEL, dim=64), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"input": [*sequences(), [1, -2]]}, "input[120][1]: Expected `int` >= 0"),
        ({"input": [*sequences(), "text"]}, "input mixes texts, numbers and lists"),
        ({"input": [*sequences(), []]}, "input[120]: Expected `array` of length >= 1"),
        ({"input": [*sequences(), [30_522]]}, "input[120] holds 30522"),
        ({"depth": 3}, "Object contains unknown field `depth`"),
    ],
)
def test_what_is_wrong_with_many_token_ids_is_named_with_its_place(
    http: httpx.Client, change: dict[str, Any], what: str
) -> None:
    reply = http.post("/v1/embeddings", json={"input": sequences(), "model": DEMO_MODEL, **change})
    assert reply.status_code == 400
    assert what in reply.json()["error"]["message"]


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_a_large_answer_is_whole_and_says_its_length(http: httpx.Client, client: SyncClient, encoding: str) -> None:
    texts = [f"wheel {number}" for number in range(300)]
    reply = http.post("/embed", json={"inputs": texts, "model": DEMO_MODEL, "encoding_format": encoding})
    assert int(reply.headers["Content-Length"]) == len(reply.content) > 100_000
    if encoding == "float":
        np.testing.assert_allclose(reply.json(), client.embed(texts, model=DEMO_MODEL), atol=1e-6)
    theirs = http.post("/v1/embeddings", json={"input": texts, "model": DEMO_MODEL, "encoding_format": encoding})
    assert [item["embedding"] for item in theirs.json()["data"]] == reply.json()
    assert [item["index"] for item in theirs.json()["data"]] == list(range(300))


def test_the_tokens_of_a_long_text_are_those_of_the_tokenizer(http: httpx.Client, minilm: Engine) -> None:
    text = "the wheel turns; unturnable caf\u00e9. " * 3000
    oracle = Tokenizer.from_str(minilm.checkpoint.tokenizer_json.decode())
    oracle.no_truncation()
    oracle.no_padding()
    encoding = oracle.encode(text)
    (shown,) = http.post("/tokenize", json={"inputs": text, "model": DEMO_MODEL}).json()
    assert [token["id"] for token in shown] == encoding.ids
    assert [token["special"] for token in shown] == [bool(each) for each in encoding.special_tokens_mask]
    places = [(token["start"], token["stop"]) for token in shown[1:-1]]
    assert places == encoding.offsets[1:-1]
    assert [token["text"] for token in shown[1:-1]] == [text[start:stop] for start, stop in places]
    assert [shown[0]["text"], shown[-1]["text"]] == [encoding.tokens[0], encoding.tokens[-1]]


@pytest.mark.parametrize(
    ("path", "start", "item", "what"),
    [
        ("/v1/embeddings", b'{"input":[', b"[1]", "lists"),
        ("/v1/embeddings", b'{"input":["a",', b"[1]", "lists"),
        ("/v1/embeddings", b'{"input":[', b'"a"', "strings"),
        ("/v1/embeddings", b'{"input":[', b'"\\\\"', "strings"),
        ("/v1/embeddings", b'{"input":[', b"1", "values"),
        ("/v2/rerank", b'{"query":"q","documents":[', b'{"text":""}', "strings"),
    ],
)
def test_more_than_any_request_may_hold_is_refused_before_it_is_decoded(
    http: httpx.Client, path: str, start: bytes, item: bytes, what: str
) -> None:
    body = start + b",".join([item] * (1_900_000 // (len(item) + 1))) + b"]}"
    reply = http.post(path, content=body)
    assert reply.status_code == 413
    assert re.search(f"the body holds [0-9]+ {what}: at most [0-9]+ a request", reply.text)


def test_more_lists_than_items_are_refused_by_the_name_of_their_field(http: httpx.Client) -> None:
    reply = http.post("/v1/embeddings", json={"input": [[1]] * 20_000})
    assert reply.status_code == 413
    assert "input has 20000 items: at most 2048" in reply.json()["error"]["message"]
    assert reply.json()["error"]["param"] == "input"


def test_signs_in_texts_are_no_lists_nor_strings(http: httpx.Client, client: SyncClient) -> None:
    texts = ['[[["\\", ' * 8000] * 10
    reply = http.post("/embed", json={"inputs": texts, "model": DEMO_MODEL})
    np.testing.assert_allclose(reply.json(), client.embed(texts, model=DEMO_MODEL), atol=1e-6)


@pytest.mark.skipif(not Path("/proc").exists(), reason="elsewhere threads have no priority of their own")
def test_the_tokenizers_threads_make_way_for_the_event_loop(served: Running) -> None:
    pid = served.process.pid
    nice = [stat.read_text().rpartition(")")[2].split()[16] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    own = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16]
    assert 0 < sum(int(each) == int(own) + 5 for each in nice) < len(nice)
