"""One name for a request, in its answer, in logs, errors and dead letters.

Knows the header, which proxies and clients set and services pass on. Does not know what is asked.
"""

import secrets
from typing import Any, cast

from headrace_contracts import InvalidName, subjects
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

HEADER = b"x-request-id"
# ASGI lets applications add keys of their own to a scope.
_KEY = "headrace.request_id"


class RequestIds:
    """An ASGI application around another one, whose requests all have a name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; its answer has the name, whatever it says."""
        name = _given(scope) or secrets.token_hex(12)
        cast("dict[str, Any]", scope)[_KEY] = name

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, name.encode())]
            await send(message)

        with bound_contextvars(request_id=name):
            await self._app(scope, receive, named)


def request_id(scope: Scope) -> str | None:
    """The name of a request; None outside of RequestIds."""
    return cast("dict[str, Any]", scope).get(_KEY)


def _given(scope: Scope) -> str | None:
    """The name that it came with; what cannot stand in a header of ours is no reason to refuse it, and is replaced."""
    found = next((value for header, value in scope["headers"] if header == HEADER), None)
    if found is None:
        return None
    try:
        return subjects.token(found.decode("latin-1"), "request_id")
    except InvalidName:
        return None
