"""A span around every request, where OpenTelemetry is set up, that goes on with the trace of whoever asks.

Knows ASGI and the attributes of OpenTelemetry's conventions for HTTP
(https://opentelemetry.io/docs/specs/semconv/http/http-spans/). Does not know what is asked: the client's spans below it
do.
"""

from typing import cast

from headrace_contracts.tracing import Tracing
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from headrace.gateway.request_id import request_id

_TRACEPARENT = b"traceparent"
# Names of spans are of few, and methods what clients like: https://opentelemetry.io/docs/specs/semconv/http/http-spans/
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
_MAX_PATH = 200


class Traced:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request in a span, which is the current one meanwhile."""
        method = cast("HTTPScope", scope)["method"]  # the gateway has no WebSockets
        status = 500
        given = next((value for name, value in scope["headers"] if name == _TRACEPARENT), None)
        is_known = method in _METHODS
        told: dict[str, str] = {
            "http.request.method": method if is_known else "_OTHER",
            "url.path": scope["path"][:_MAX_PATH],
            "url.scheme": "http",
        }
        if (name := request_id(scope)) is not None:
            told["headrace.request_id"] = name
        parent = self._tracing.of(None if given is None else given.decode("latin-1"))
        span = self._tracing.start(verb := method if is_known else "HTTP", "server", told, parent=parent)

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._tracing.current(span):
                await self._app(scope, receive, watched)
        finally:
            span.set_attribute("http.response.status_code", status)
            if (route := scope.get("path_template")) is not None:  # Litestar writes it once it has found the route
                span.set_attribute("http.route", str(route))
                span.update_name(f"{verb} {route}")
            if status >= 500:
                self._tracing.fail(span, str(status), "")
            span.end()
