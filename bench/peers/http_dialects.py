"""What servers want to be sent, and how to read what they answer: Infinity, vLLM, text-embeddings-inference.

It knows bodies and replies as plain objects. It knows no socket and no JSON library. Rows come out in the order of the
request, whatever the order of the reply; a reply that has not one row for each text is a ValueError.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from adapter import Rows


@dataclass(frozen=True, slots=True)
class Request:
    """One POST.

    Attributes:
        url: Where to.
        body: What, to be sent as JSON.
    """

    url: str
    body: Mapping[str, Any]


class Dialect(Protocol):
    """How to talk to one kind of server."""

    @property
    def max_texts(self) -> int:
        """That it takes in one request."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """What is asked of it, in words."""
        ...

    def to_embed(self, texts: Sequence[str]) -> Request:
        """Ask for vectors."""
        ...

    def read_rows(self, reply: Any, num: int) -> Rows:
        """[num, dim] of the reply to `to_embed`."""
        ...

    def to_score(self, query: str, documents: Sequence[str]) -> Request:
        """Ask for scores."""
        ...

    def read_scores(self, reply: Any, num: int) -> Rows:
        """[num] raw logits of the reply to `to_score`."""
        ...


@dataclass(frozen=True, slots=True)
class Infinity:
    """michaelfeil/infinity, both models behind one address.

    Source: its infinity_emb/fastapi_schemas/pymodels.py.

    Attributes:
        url: Of the server.
        embedder: Name of the embedding model there.
        scorer: Name of the reranker there.
    """

    url: str
    embedder: str
    scorer: str

    max_texts = 2048

    @classmethod
    def of(cls, url: str, models: Any) -> "Infinity":
        """Find the models by what they can do.

        Args:
            url: Of the server.
            models: What GET /models answered.
        """
        return cls(url, _capable(models, "embed"), _capable(models, "rerank"))

    @property
    def settings(self) -> Mapping[str, str]:
        """As Dialect."""
        return {"wire": "JSON, vectors in base64, one connection a call in flight", "scores": "raw_scores"}

    def to_embed(self, texts: Sequence[str]) -> Request:
        """As Dialect."""
        body = {"model": self.embedder, "input": list(texts), "encoding_format": "base64"}
        return Request(f"{self.url}/embeddings", body)

    def read_rows(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        return _base64_rows(reply["data"], num)

    def to_score(self, query: str, documents: Sequence[str]) -> Request:
        """As Dialect."""
        body = {"model": self.scorer, "query": query, "documents": list(documents), "raw_scores": True}
        return Request(f"{self.url}/rerank", body)

    def read_scores(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        return _scores(reply["results"], "relevance_score", num)


@dataclass(frozen=True, slots=True)
class Vllm:
    """vLLM with a pooling model, one server a model.

    Source: its documentation of /v1/embeddings and /rerank.

    Attributes:
        embedder_url: Of the server of the embedding model.
        scorer_url: Of the reranker's; the same where there is none.
        embedder: Name of the embedding model.
        scorer: Name of the reranker.
        has_logits: Whether it knows `use_activation`; releases that do not can only give probabilities.
    """

    embedder_url: str
    scorer_url: str
    embedder: str
    scorer: str
    has_logits: bool

    max_texts = 2048

    @property
    def settings(self) -> Mapping[str, str]:
        """As Dialect."""
        scores = "use_activation is off" if self.has_logits else "probabilities, made logits again by the client"
        return {"wire": "JSON, vectors in base64, one connection a call in flight", "scores": scores}

    def to_embed(self, texts: Sequence[str]) -> Request:
        """As Dialect."""
        body = {"model": self.embedder, "input": list(texts), "encoding_format": "base64"}
        return Request(f"{self.embedder_url}/v1/embeddings", body | {"truncate_prompt_tokens": -1})

    def read_rows(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        return _base64_rows(reply["data"], num)

    def to_score(self, query: str, documents: Sequence[str]) -> Request:
        """As Dialect."""
        body = {"model": self.scorer, "query": query, "documents": list(documents), "truncate_prompt_tokens": -1}
        return Request(f"{self.scorer_url}/rerank", body | {"use_activation": not self.has_logits})

    def read_scores(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        scores = _scores(reply["results"], "relevance_score", num)
        return scores if self.has_logits else _logits(scores)


@dataclass(frozen=True, slots=True)
class Tei:
    """text-embeddings-inference, one server a model.

    Source: its openapi.json.

    Attributes:
        embedder_url: Of the server of the embedding model.
        scorer_url: Of the reranker's; the same where there is none.
        max_texts: What GET /info calls max_client_batch_size.
    """

    embedder_url: str
    scorer_url: str
    max_texts: int

    @property
    def settings(self) -> Mapping[str, str]:
        """As Dialect."""
        return {
            "wire": f"JSON, {self.max_texts} texts a request at most, one connection a call in flight",
            "scores": "raw_scores",
        }

    def to_embed(self, texts: Sequence[str]) -> Request:
        """As Dialect."""
        return Request(f"{self.embedder_url}/embed", {"inputs": list(texts), "normalize": True, "truncate": True})

    def read_rows(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        _check_count(len(reply), num)
        return np.array(reply, np.float32)

    def to_score(self, query: str, documents: Sequence[str]) -> Request:
        """As Dialect."""
        body = {"query": query, "texts": list(documents), "raw_scores": True, "truncate": True}
        return Request(f"{self.scorer_url}/rerank", body)

    def read_scores(self, reply: Any, num: int) -> Rows:
        """As Dialect."""
        return _scores(reply, "score", num)


def split_urls(url: str | None) -> tuple[str, str]:
    """The embedder's and the scorer's address, of `--url A` or `--url A,B`.

    Raises:
        ValueError: There is none.
    """
    if not url:
        raise ValueError("--url is missing: give the address of a running server, or embedder's,scorer's")
    parts = [part.rstrip("/") for part in url.split(",")]
    return parts[0], parts[-1]


def _capable(models: Any, capability: str) -> str:
    for model in models["data"]:
        if capability in model["capabilities"]:
            return str(model["id"])
    raise ValueError(f"the server has no model that can {capability}, only {[model['id'] for model in models['data']]}")


def _base64_rows(items: Sequence[Mapping[str, Any]], num: int) -> Rows:
    """OpenAI's form: float32, little-endian, in base64."""
    vectors = b"".join(b64decode(item["embedding"]) for item in _in_order(items, num))
    return np.frombuffer(vectors, "<f4").reshape(num, -1).astype(np.float32)


def _scores(items: Sequence[Mapping[str, Any]], field: str, num: int) -> Rows:
    return np.array([item[field] for item in _in_order(items, num)], np.float32)


def _in_order(items: Sequence[Mapping[str, Any]], num: int) -> list[Mapping[str, Any]]:
    _check_count(len({item["index"] for item in items}), num)
    return sorted(items, key=itemgetter("index"))


def _check_count(found: int, num: int) -> None:
    if found != num:
        raise ValueError(f"the server answered {num} texts with {found} rows")


def _logits(probabilities: Rows) -> Rows:
    """Undo a sigmoid, as far as float32 has kept what went in."""
    tiny = np.finfo(np.float32).eps
    inside = np.clip(probabilities.astype(np.float64), tiny, 1 - tiny)
    return np.asarray(np.log(inside / (1 - inside)), np.float32)
