"""OpenAI's API: embeddings and models.

Knows its fields (https://platform.openai.com/docs/api-reference/embeddings). Two of the request are ours: `truncate`
and `prompt_name`.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from headrace_contracts import ModelSpec
from litestar import Response, get, post
from msgspec import Meta, Struct

from headrace.gateway import inputs, pieces
from headrace.gateway.answer import answer, answer_pieces
from headrace.gateway.call import Call
from headrace.gateway.fleet import Fleet
from headrace.gateway.shapes import OPENAI

_ERRORS = OPENAI.documented()


class EmbeddingsRequest(Struct, forbid_unknown_fields=True):
    """What to embed, and how."""

    ids_field: ClassVar = "input"

    input: inputs.Input
    model: Annotated[str, Meta(description="served name; may be left out while one model embeds")] | None = None
    dimensions: Annotated[int, Meta(ge=1, description="leading dimensions to keep")] | None = None
    encoding_format: inputs.EncodingFormat | None = None
    user: Annotated[str, Meta(description="taken and not used")] | None = None
    truncate: Annotated[bool, Meta(description="cut what is too long; otherwise it is an error, as with OpenAI")] = (
        False
    )
    prompt_name: Annotated[str, Meta(description="one of the model's prompts, put before each text")] | None = None


class Embedding(Struct):
    """One vector."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class Usage(Struct):
    """What a request cost."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(Struct):
    """Vectors, in the order of the input."""

    data: list[Embedding]
    model: str
    usage: Usage
    object: Literal["list"] = "list"


class Model(Struct):
    """One model; the last three fields are ours."""

    id: str
    tasks: list[str]
    max_model_len: int
    dimensions: int | None
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "headrace"


class ModelList(Struct):
    """What the fleet serves."""

    data: list[Model]
    object: Literal["list"] = "list"


@post("/v1/embeddings", status_code=200, summary="Embed texts or token ids", responses=_ERRORS)
async def embeddings(data: EmbeddingsRequest, call: Call) -> Response[EmbeddingsReply]:
    """Embed, in one vector a text."""
    spec = await call.fleet.choose(data.model, "embed")
    options = {"dim": data.dimensions, "truncate": data.truncate, "prompt_name": data.prompt_name}
    vectors = await inputs.embed(data.input, "input", spec, call, **options)
    rows = inputs.floats(vectors)

    def some(indices: range) -> list[Embedding]:
        values = inputs.written(rows[indices.start : indices.stop], data.encoding_format)
        return [Embedding(index, value) for index, value in zip(indices, values, strict=True)]

    found = await pieces.array(len(rows), rows.shape[1], some)
    tokens = vectors.usage.tokens
    envelope = msgspec.json.encode(EmbeddingsReply([], spec.name, Usage(tokens, tokens)))
    return answer_pieces(pieces.put_into(envelope, found), vectors)


@get("/v1/models", summary="List the models", responses=_ERRORS)
async def models(fleet: Fleet) -> Response[ModelList]:
    """What the fleet serves."""
    return answer(ModelList([_model(spec) for spec in await fleet.specs()]))


@get("/v1/models/{name:str}", summary="Tell of a model", responses=_ERRORS)
async def model(name: str, fleet: Fleet) -> Response[Model]:
    """One of them."""
    return answer(_model(await fleet.choose(name)))


def _model(spec: ModelSpec) -> Model:
    return Model(spec.name, list(spec.tasks), spec.max_length, spec.dim if "embed" in spec.tasks else None)
