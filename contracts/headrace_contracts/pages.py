"""What each process of a fleet tells its operators over HTTP, in the same way whichever it is.

    /metrics        GET: what it counts
    /health/NAME    GET: 200 {"status": "ok"} or 503 {"status": "unready", "reason": …}; each process says which it has

Knows paths and answers. Does not know what a metric or a sign of health means, nor sockets (page_server.py).
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

Application: TypeAlias = "Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]"
# Why it is not well; None where it is.
Check: TypeAlias = Callable[[], str | None]

_METRICS = "/metrics"
# Balancers may ask for headers alone.
_METHODS = ("GET", "HEAD")


class Pages:
    """A WSGI application of them."""

    def __init__(self, metrics: Application, checks: Mapping[str, Check]) -> None:
        """Say what there is.

        Args:
            metrics: serves /metrics.
            checks: by path.
        """
        self._metrics = metrics
        self._checks = checks

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Serve one page."""
        body = self._page(environ, start)
        return body if environ["REQUEST_METHOD"] != "HEAD" else ()

    def _page(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path != _METRICS and path not in self._checks:
            there_are = f"there are {', '.join((_METRICS, *self._checks))}"
            return _answer(start, "404 Not Found", {"status": "not found", "reason": there_are})
        if environ["REQUEST_METHOD"] not in _METHODS:
            start("405 Method Not Allowed", [("Allow", ", ".join(_METHODS))])
            return ()
        try:
            if path == _METRICS:
                return self._metrics(environ, start)
            reason = self._checks[path]()
        except Exception as error:
            logger.exception("This is a bug: %s cannot be told", path)
            return _answer(start, "500 Internal Server Error", {"status": "unknown", "reason": repr(error)})
        if reason is None:
            return _answer(start, "200 OK", {"status": "ok"})
        return _answer(start, "503 Service Unavailable", {"status": "unready", "reason": reason})


def _answer(start: "StartResponse", status: str, body: Mapping[str, str]) -> Iterable[bytes]:
    encoded = json.dumps(body).encode()
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(encoded)))])
    return (encoded,)
