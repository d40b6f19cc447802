"""The API of text-embeddings-inference: embed, rerank, tokenize, info.

Knows its fields (router/src/http/types.rs, version 1.9). `model` is ours, for fleets of several.
"""

import os
from importlib.metadata import version
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from headrace_contracts import ModelSpec
from litestar import Response, get, post
from msgspec import Meta, Struct

from headrace.errors import InputError
from headrace.gateway import inputs, pieces
from headrace.gateway.answer import answer, answer_pieces
from headrace.gateway.call import Call
from headrace.gateway.inputs import EncodingFormat, Input
from headrace.gateway.naming import naming
from headrace.gateway.shapes import TEI
from headrace.gateway.tokens import Token, tokens_of
from headrace.options import EmbedOptions

Direction: TypeAlias = Annotated[
    Literal["right", "Right", "left", "Left"], Meta(description="only the end of a text can be cut: right")
]
Truncate: TypeAlias = Annotated[bool, Meta(description="cut what is too long; if false it is an error")]
ModelName: TypeAlias = Annotated[str, Meta(description="served name; may be left out while one model can")]

_ERRORS = TEI.documented()


class EmbedRequest(Struct, forbid_unknown_fields=True):
    """What to embed, and how."""

    ids_field: ClassVar = "inputs"

    inputs: Input
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    prompt_name: str | None = None
    normalize: bool | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: EncodingFormat | None = None
    model: ModelName | None = None


class RerankRequest(Struct, forbid_unknown_fields=True):
    """What to rank, and how."""

    query: str
    texts: Annotated[list[str], Meta(min_length=1)]
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    raw_scores: bool = False
    return_text: bool = False
    model: ModelName | None = None


class Rank(Struct, omit_defaults=True):
    """One place of the ranking."""

    index: int
    score: float
    text: str | None = None


class TokenizeRequest(Struct, forbid_unknown_fields=True):
    """What to tokenise."""

    inputs: str | list[str]
    add_special_tokens: bool = True
    prompt_name: str | None = None
    model: ModelName | None = None


class Info(Struct):
    """What a model and this gateway take."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: dict[str, Any]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: str | None = None
    docker_label: str | None = None


@post(["/embed", "/"], status_code=200, summary="Embed texts or token ids", responses=_ERRORS)
async def embed(data: EmbedRequest, call: Call) -> Response[list[list[float] | str]]:
    """Embed, in one vector a text."""
    _check(data.truncation_direction)
    spec = await call.fleet.choose(data.model, "embed")
    vectors = await inputs.embed(
        data.inputs,
        "inputs",
        spec,
        call,
        dim=data.dimensions,
        truncate=data.truncate is not False,
        prompt_name=data.prompt_name,
        normalize=data.normalize is not False,
    )
    rows = inputs.floats(vectors)
    found = await pieces.array(
        len(rows), rows.shape[1], lambda some: inputs.written(rows[some.start : some.stop], data.encoding_format)
    )
    return answer_pieces(found, vectors)


@post("/rerank", status_code=200, summary="Rank texts by relevance", responses=_ERRORS)
async def rerank(data: RerankRequest, call: Call) -> Response[list[Rank]]:
    """Rank texts, best first."""
    _check(data.truncation_direction)
    call.limits.check_items(len(data.texts), "texts")
    spec = await call.fleet.choose(data.model, "score")
    truncate = data.truncate is not False
    with naming(documents="texts"):
        scores = await call.score(spec, data.query, data.texts, raw=data.raw_scores, truncate=truncate)
    ranks = [
        Rank(place.index, place.score, data.texts[place.index] if data.return_text else None)
        for place in scores.ranking
    ]
    return answer(ranks, scores)


@post("/tokenize", status_code=200, summary="Tokenise texts", responses=_ERRORS)
async def tokenize(data: TokenizeRequest, call: Call) -> Response[list[list[Token]]]:
    """The tokens of each text, uncut."""
    texts = [data.inputs] if isinstance(data.inputs, str) else data.inputs
    call.limits.check_items(len(texts), "inputs")
    spec = await call.fleet.choose(data.model)
    prompt = EmbedOptions(prompt_name=data.prompt_name).prompt(spec) if data.prompt_name else ""
    tokenizer = await call.fleet.client.tokenizer(spec.name)
    prompted = [prompt + text for text in texts]
    return answer_pieces(await tokens_of(prompted, tokenizer, call.limits, special=data.add_special_tokens))


@get("/info", summary="What a model and this gateway take", responses=_ERRORS)
async def info(call: Call, model: str | None = None) -> Response[Info]:
    """Tell of a model: the named one, or the only one."""
    spec = await call.fleet.choose(model)
    return answer(_info(spec, call))


def _check(direction: str | None) -> None:
    if direction in {"left", "Left"}:
        raise InputError(f"truncation_direction is {direction!r}: only the end of a text can be cut, so say right")


def _info(spec: ModelSpec, call: Call) -> Info:
    labels = {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}
    limits = call.limits
    return Info(
        model_id=spec.name,
        model_sha=spec.fingerprint,
        model_dtype=spec.compute_dtype,
        model_type={"embedding": {"pooling": spec.pooling}} if "embed" in spec.tasks else labels,
        max_concurrent_requests=limits.max_concurrent,
        max_input_length=spec.max_length,
        max_batch_tokens=spec.max_chunk_tokens,
        max_batch_requests=spec.max_chunk_items,
        max_client_batch_size=limits.max_items,
        auto_truncate=True,
        tokenization_workers=os.cpu_count() or 1,
        version=version("headrace"),
    )
