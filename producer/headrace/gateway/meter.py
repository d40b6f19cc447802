"""Counts every request around the application, those included that match no route.

Knows ASGI. Does not know what is asked.
"""

import time

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from headrace.gateway.metrics import Metrics

_UNMATCHED = "unmatched"


class Meter:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve and count one request."""
        status = 500
        started = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, watched)
            finally:
                route, kind = route_of(scope), _class_of(scope)
                self._metrics.requests.labels(route, str(status), kind).inc()
                self._metrics.seconds.labels(route, kind).observe(time.perf_counter() - started)


def route_of(scope: Scope) -> str:
    """The route that a request has matched, one of few: its path may be anything."""
    # Litestar writes it into the scope once it has found the route.
    return scope.get("path_template") or _UNMATCHED


def _class_of(scope: Scope) -> str:
    return "batch" if (b"x-headrace-priority", b"batch") in scope["headers"] else "online"
