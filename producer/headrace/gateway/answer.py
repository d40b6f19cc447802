"""Answers as the handlers give them: JSON bytes, and what was cut.

Knows the header that tells of cut texts. Does not know the bodies.
"""

from typing import Any

import msgspec
from litestar import Response

from headrace.result import Result

_encoder = msgspec.json.Encoder()


def answer(body: Any, result: Result | None = None) -> Response[Any]:
    """A body as JSON; `X-Headrace-Truncated` says how many texts of the result were cut, where any was."""
    headers = {"X-Headrace-Truncated": str(len(result.truncated))} if result is not None and result.truncated else {}
    return Response(_encoder.encode(body), media_type="application/json", headers=headers)
