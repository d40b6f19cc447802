"""Answers as the handlers give them: JSON bytes, and what was cut.

Knows the header that tells of cut texts, and how a large answer is handed over. Does not know the bodies.
"""

from typing import Any

import msgspec
from litestar import Request, Response

from headrace.gateway.pieces import Pieces, PiecewiseResponse
from headrace.result import Result

_encoder = msgspec.json.Encoder()
_JSON = "application/json"
_SMALL = 65_536  # bytes


def answer(body: Any, result: Result | None = None) -> Response[Any]:
    """A body as JSON; `X-Headrace-Truncated` says how many texts of the result were cut, where any was."""
    return Response(_encoder.encode(body), media_type=_JSON, headers=_headers(result))


def answer_pieces(pieces: Pieces, result: Result | None = None) -> Response[Any]:
    """The same of JSON that is encoded already."""
    if sum(map(len, pieces)) <= _SMALL:
        return Response(b"".join(pieces), media_type=_JSON, headers=_headers(result))
    return _Piecewise(pieces, media_type=_JSON, headers=_headers(result))


def _headers(result: Result | None) -> dict[str, str]:
    return {"X-Headrace-Truncated": str(len(result.truncated))} if result is not None and result.truncated else {}


class _Piecewise(Response[Pieces]):
    """A response whose pieces go out one by one."""

    def to_asgi_response(
        self,
        app: Any,  # noqa: ARG002 - of Litestar, which gives none
        request: Request[Any, Any, Any],  # noqa: ARG002 - likewise not needed
        *,
        headers: dict[str, str] | None = None,
        status_code: int | None = None,
        **_: Any,
    ) -> PiecewiseResponse:
        """What Litestar calls."""
        return PiecewiseResponse(
            self.content,
            headers={**(headers or {}), **self.headers},
            media_type=self.media_type,
            status_code=self.status_code or status_code,
        )
