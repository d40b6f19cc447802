"""The API of text-embeddings-inference, by a client of it and by hand, beside our own client."""

import base64
from typing import Any

import httpx
import numpy as np
import pytest
from headrace import SyncClient
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from ..conftest import DEMO_MODEL
from ..engine.scorers import WORDS
from .conftest import SCORER
from .running import Running

TEXTS = ["a mill by the river", "tokens to a device", ""]
LONG = "wheel " * 300


def asked(http: httpx.Client, path: str, **body: Any) -> Any:
    reply = http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_their_client_gets_the_vectors_of_ours(served: Running, client: SyncClient) -> None:
    theirs = InferenceClient(base_url=served.url, api_key="none")
    np.testing.assert_allclose(theirs.feature_extraction(TEXTS[0]), [client.embed(TEXTS[0])], atol=1e-6)
    cut = theirs.feature_extraction(
        LONG, normalize=True, truncate=True, truncation_direction="right", dimensions=8, encoding_format="float"
    )
    np.testing.assert_allclose(cut, [client.embed(LONG, dim=8)], atol=1e-6)
    with pytest.raises(HfHubHTTPError, match="422"):
        theirs.feature_extraction(LONG, truncate=False)


@pytest.mark.parametrize("path", ["/", "/embed"])
def test_texts_become_a_bare_array_of_arrays(http: httpx.Client, client: SyncClient, path: str) -> None:
    np.testing.assert_allclose(asked(http, path, inputs=TEXTS), client.embed(TEXTS), atol=1e-6)
    ids = [[101, 2012, 102], [101, 102]]
    np.testing.assert_allclose(asked(http, path, inputs=ids), client.embed_ids(ids, model=DEMO_MODEL), atol=1e-6)
    encoded = asked(http, path, inputs=TEXTS, encoding_format="base64", model=DEMO_MODEL)
    rows = [np.frombuffer(base64.b64decode(row), "<f4") for row in encoded]
    np.testing.assert_allclose(rows, client.embed(TEXTS), atol=1e-6)


def test_vectors_have_length_one_unless_they_are_wanted_as_pooled(http: httpx.Client, client: SyncClient) -> None:
    pooled = asked(http, "/embed", inputs=TEXTS, normalize=False)
    np.testing.assert_allclose(pooled, client.embed(TEXTS, normalize=False), atol=1e-6)
    assert not np.allclose(np.linalg.norm(pooled, axis=1), 1, atol=0.01)


def test_long_texts_are_cut_unless_they_must_not_be(http: httpx.Client) -> None:
    assert http.post("/embed", json={"inputs": [TEXTS[0], LONG]}).headers["X-Headrace-Truncated"] == "1"
    reply = http.post("/embed", json={"inputs": [TEXTS[0], LONG], "truncate": False})
    assert reply.status_code == 422
    assert "302 tokens" in reply.json()["error"]


def test_texts_are_ranked_best_first(http: httpx.Client, client: SyncClient) -> None:
    query, texts = WORDS[0], [" ".join(WORDS[first : first + 4]) for first in range(1, 25, 4)]
    ours = client.score(query, texts)
    ranks = asked(http, "/rerank", query=query, texts=texts, return_text=True)
    assert [rank["index"] for rank in ranks] == [place.index for place in ours.ranking]
    assert [rank["score"] for rank in ranks] == pytest.approx([place.score for place in ours.ranking], abs=1e-6)
    assert [rank["text"] for rank in ranks] == [texts[place.index] for place in ours.ranking]
    raw = asked(http, "/rerank", query=query, texts=texts, raw_scores=True, model=SCORER)
    ours = client.score(query, texts, raw=True)
    assert [rank["score"] for rank in raw] == pytest.approx([place.score for place in ours.ranking], abs=1e-5)
    assert all("text" not in rank for rank in raw)


def test_tokens_are_shown_with_their_places(http: httpx.Client) -> None:
    first, second = asked(http, "/tokenize", inputs=["H\u00e9llo river", ""])
    assert first == [
        {"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None},
        {"id": 7592, "text": "H\u00e9llo", "special": False, "start": 0, "stop": 5},
        {"id": 2314, "text": "river", "special": False, "start": 6, "stop": 11},
        {"id": 102, "text": "[SEP]", "special": True, "start": None, "stop": None},
    ]
    assert [token["id"] for token in second] == [101, 102]
    (bare,) = asked(http, "/tokenize", inputs="river", add_special_tokens=False, model=DEMO_MODEL)
    assert [token["id"] for token in bare] == [2314]
    (long,) = asked(http, "/tokenize", inputs="river " * 5000)
    assert len(long) == 5002


def test_tokens_of_a_text_embed_as_the_text_does(http: httpx.Client) -> None:
    tokens = asked(http, "/tokenize", inputs=TEXTS)
    ids = [[token["id"] for token in text] for text in tokens]
    np.testing.assert_allclose(asked(http, "/embed", inputs=ids), asked(http, "/embed", inputs=TEXTS), atol=1e-6)


def test_info_tells_of_the_model_that_embeds_or_of_the_one_named(http: httpx.Client) -> None:
    info = http.get("/info").json()
    assert info["model_id"] == DEMO_MODEL
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (info["max_input_length"], info["max_client_batch_size"]) == (256, 2048)
    assert "reranker" in http.get("/info", params={"model": SCORER}).json()["model_type"]
    assert http.get("/info", params={"model": "bge"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        ("/embed", {"inputs": TEXTS, "truncation_direction": "Left"}, "truncation_direction is 'Left'"),
        ("/rerank", {"query": "a", "texts": TEXTS, "truncation_direction": "left"}, "truncation_direction is 'left'"),
        ("/embed", {"inputs": TEXTS, "truncation_direction": "up"}, "truncation_direction: Invalid enum value"),
        ("/embed", {"inputs": []}, "inputs is empty"),
        ("/embed", {"inputs": "wheel " * 300, "truncate": False}, "the first is inputs[0]: too_long"),
        ("/rerank", {"query": "a", "texts": ["a " * 300], "truncate": False}, "the first is texts[0]: too_long"),
        ("/embed", {"inputs": "text", "prompt_name": "query"}, "prompt_name is 'query'"),
        ("/tokenize", {"inputs": "text", "prompt_name": "query"}, "prompt_name is 'query'"),
        ("/tokenize", {"inputs": [5]}, "inputs[0]: Expected `str`"),
        ("/rerank", {"query": "a", "texts": []}, "texts: Expected `array` of length >= 1"),
        ("/embed", {"input": "text"}, "unknown field `input`"),
    ],
)
def test_what_is_wrong_is_a_validation_error(http: httpx.Client, path: str, body: dict[str, Any], what: str) -> None:
    reply = http.post(path, json=body)
    assert reply.status_code == 422
    assert what in reply.json()["error"]
    assert reply.json()["error_type"] == "Validation"
