"""How each API words an error, and under which status.

Knows the bodies that the clients of each API read. Does not know what went wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from msgspec import Struct

from headrace.gateway.problems import STATUS, Kind, Problem

# What any request of an API may be answered with instead of a result.
_DOCUMENTED = (400, 401, 404, 408, 413, 415, 422, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Shape:
    """One API's errors.

    Attributes:
        schema: the type of their body.
        body: a problem, under a status, as its clients read it.
        invalid: its status for JSON that asks for what cannot be.
    """

    schema: type[Struct]
    body: Callable[[Problem, int], Struct]
    invalid: int = 422

    def status(self, problem: Problem) -> int:
        """The HTTP status."""
        return self.invalid if problem.kind is Kind.INVALID else STATUS[problem.kind]

    def render(self, problem: Problem) -> bytes:
        """The body as JSON."""
        return msgspec.json.encode(self.body(problem, self.status(problem)))

    def documented(self) -> Mapping[int, ResponseSpec]:
        """Errors as an OpenAPI document tells of them."""
        statuses = (status for status in _DOCUMENTED if status != 422 or self.invalid == 422)
        return {
            status: ResponseSpec(self.schema, generate_examples=False, description=HTTPStatus(status).phrase)
            for status in statuses
        }


def headers(problem: Problem) -> dict[str, str]:
    """What a client may have to know before it reads the body."""
    found = {}
    if problem.retry_after_s is not None:
        found["Retry-After"] = str(max(1, ceil(problem.retry_after_s)))
    if problem.kind is Kind.UNAUTHORIZED:
        found["WWW-Authenticate"] = "Bearer"
    return found


class OpenAIDetail(Struct):
    """What went wrong; `code` tells two problems of one type apart."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIError(Struct):
    """https://platform.openai.com/docs/guides/error-codes."""

    error: OpenAIDetail


class CohereError(Struct):
    """Cohere's clients read `message`, Jina's `detail`."""

    message: str
    detail: str


class TeiError(Struct):
    """ErrorResponse in router/src/http/types.rs of text-embeddings-inference 1.9."""

    error: str
    error_type: str


def _openai(problem: Problem, status: int) -> OpenAIError:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    codes = {Kind.UNKNOWN_MODEL: "model_not_found", Kind.UNAUTHORIZED: "invalid_api_key"}
    code = codes.get(problem.kind, str(problem.kind))
    return OpenAIError(OpenAIDetail(problem.text, kind, problem.field, code))


def _cohere(problem: Problem, status: int) -> CohereError:  # noqa: ARG001 - one signature for all shapes
    return CohereError(problem.text, problem.text)


def _tei(problem: Problem, status: int) -> TeiError:
    kinds = {429: "Overloaded", 503: "Unhealthy"}
    return TeiError(problem.text, kinds.get(status, "Backend" if status >= 500 else "Validation"))


OPENAI = Shape(OpenAIError, _openai, invalid=400)
COHERE = Shape(CohereError, _cohere)
TEI = Shape(TeiError, _tei)

_BY_PATH = {
    "/v1/rerank": COHERE,
    "/v2/rerank": COHERE,
    "": TEI,
    "/embed": TEI,
    "/rerank": TEI,
    "/tokenize": TEI,
    "/info": TEI,
}


def shape_of(path: str) -> Shape:
    """The API that a path belongs to; OpenAI's for all that is nobody's."""
    return _BY_PATH.get(path.rstrip("/"), OPENAI)
