"""Reranking as with Cohere and Jina.

Knows their fields (https://docs.cohere.com/reference/rerank, https://api.jina.ai/redoc). One answer serves both:
Cohere's clients read `results` and `meta`, Jina's `results` and `usage`.
"""

import secrets
from typing import Annotated, Any

from litestar import Response, post
from msgspec import Meta, Struct

from headrace.gateway.answer import answer
from headrace.gateway.body import Body
from headrace.gateway.call import Call
from headrace.gateway.documents import cut
from headrace.gateway.shapes import COHERE

_ERRORS = COHERE.documented()


class Document(Struct):
    """A document with fields; only its text counts."""

    text: str


class RerankRequest(Struct, forbid_unknown_fields=True):
    """What to rank, and how."""

    query: str
    documents: Annotated[list[str | Document], Meta(min_length=1)]
    model: Annotated[str, Meta(description="served name; may be left out while one model scores")] | None = None
    top_n: Annotated[int, Meta(ge=1, description="how many results to return; all, if left out")] | None = None
    return_documents: Annotated[bool, Meta(description="whether results hold their documents")] = False
    max_tokens_per_doc: Annotated[int, Meta(ge=1, description="each document is cut to so many tokens")] | None = None


class RerankResult(Struct, omit_defaults=True):
    """One place of the ranking."""

    index: int
    relevance_score: float
    document: Document | None = None


class RerankUsage(Struct):
    """What a request cost."""

    prompt_tokens: int
    total_tokens: int


class RerankReply(Struct):
    """The ranking, best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: RerankUsage
    meta: dict[str, Any]


@post(
    ["/v1/rerank", "/v2/rerank"],
    status_code=200,
    summary="Rank documents by their relevance to a query",
    responses=_ERRORS,
)
async def rerank(data: RerankRequest, call: Call, request: Body) -> Response[RerankReply]:
    """Rank documents. What is longer than the model takes loses its end; the query is never cut."""
    call.limits.check_items(len(data.documents), "documents")
    spec = await call.fleet.choose(data.model, "score")
    texts = [document if isinstance(document, str) else document.text for document in data.documents]
    scored = texts
    if data.max_tokens_per_doc is not None:
        scored = await cut(texts, await call.fleet.client.tokenizer(spec.name), data.max_tokens_per_doc)
    scores = await call.score(spec, data.query, scored, top_n=data.top_n)
    results = [
        RerankResult(place.index, place.score, Document(texts[place.index]) if data.return_documents else None)
        for place in scores.ranking
    ]
    tokens = scores.usage.tokens
    meta = {"api_version": {"version": request.scope["path"][2]}, "tokens": {"input_tokens": tokens}}
    reply = RerankReply(secrets.token_hex(12), spec.name, results, RerankUsage(tokens, tokens), meta)
    return answer(reply, scores)
