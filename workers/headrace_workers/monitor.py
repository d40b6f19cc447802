"""What a worker tells over HTTP: its metrics and its health.

    /metrics                                           Prometheus' text format, or OpenMetrics where that is asked for
    /health/startup, /health/live, /health/ready       200 {"status": "ok"} or 503 {"status": "unready", "reason": …}

Knows paths, threads and sockets. It answers from threads of its own, so that a worker whose event loop or device hangs
still says so. Does not know what a metric or a sign of health means.
"""

import contextlib
import io
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, TextIO, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import make_wsgi_app

from headrace_workers.address import Address
from headrace_workers.errors import AddressUnfit
from headrace_workers.health import not_live, not_ready, not_started
from headrace_workers.metrics import Metrics
from headrace_workers.pulse import Pulse

logger = logging.getLogger(__name__)

# Seconds that a client may take to send the next bytes, or to take the next.
_PATIENCE_S = 5.0
# Of those that are served at a time. One more takes the place of the oldest: slow clients cannot keep a probe out.
_MAX_CLIENTS = 16

Application: TypeAlias = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]


@contextmanager
def monitored(address: Address, model: str, pulse: Pulse) -> Iterator[Address]:
    """Listen and answer while the context lasts; gives the address with the port that was taken.

    Args:
        address: where to listen.
        model: served name of the model, a label of every series.
        pulse: of the process; what is told is read from it.

    Raises:
        AddressUnfit: it is taken, or not one of this machine.
    """
    with _listening(address, _application(pulse, Metrics(model, pulse))) as server:
        found = Address(address.host, server.server_port)
        logger.info("monitor at http://%s: /metrics, /health/startup, /health/live, /health/ready", found)
        thread = threading.Thread(target=server.serve_forever, name="monitor", daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def _application(pulse: Pulse, metrics: Metrics) -> Application:
    limits = pulse.limits
    checks: dict[str, Callable[[], str | None]] = {
        "/health/startup": lambda: not_started(pulse.vitals()),
        "/health/live": lambda: not_live(pulse.vitals(), limits, time.monotonic()),
        "/health/ready": lambda: not_ready(pulse.vitals(), limits, time.monotonic()),
    }
    page: Application = make_wsgi_app(metrics.registry)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        try:
            if path == "/metrics":
                return page(environ, start_response)
            if path not in checks:
                there_are = f"there are /metrics, {', '.join(checks)}"
                return _answer(start_response, "404 Not Found", {"status": "not found", "reason": there_are})
            if method != "GET":
                start_response("405 Method Not Allowed", [("Allow", "GET")])
                return []
            reason = checks[path]()
        except Exception as error:
            logger.exception("This is a bug: %s cannot be told", path)
            return _answer(start_response, "500 Internal Server Error", {"status": "unknown", "reason": repr(error)})
        if reason is None:
            return _answer(start_response, "200 OK", {"status": "ok"})
        return _answer(start_response, "503 Service Unavailable", {"status": "unready", "reason": reason})

    return application


def _answer(start_response: StartResponse, status: str, body: Mapping[str, str]) -> Iterable[bytes]:
    encoded = json.dumps(body).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(encoded)))])
    return [encoded]


@contextmanager
def _listening(address: Address, application: Application) -> "Iterator[_Server]":
    try:
        server = _Server(address)
    except OSError as error:
        raise AddressUnfit(
            f"monitor {address} cannot be listened on ({error.strerror or error}): give another one, or port 0"
        ) from error
    server.set_app(application)
    with server:
        yield server


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each client, up to a bound."""

    daemon_threads = True
    block_on_close = False
    # Connections that the kernel keeps until they are accepted. Of socketserver's five a burst leaves none to a probe.
    request_queue_size = 128

    def __init__(self, address: Address) -> None:
        """Listen; raises OSError where that cannot be."""
        self._is_dual = not address.host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._is_dual else socket.AF_INET
        if address.host:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
        self._clients: dict[socket.socket, None] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of this machine's name that http.server does: it may take seconds, or fail."""
        if self._is_dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one more client, in the place of the oldest if there are enough."""
        with self._lock:
            self._clients[request] = None
            surplus = [] if len(self._clients) <= _MAX_CLIENTS else [next(iter(self._clients))]
            for oldest in surplus:
                del self._clients[oldest]
        for oldest in surplus:
            # Its thread then reads or writes in vain, and ends.
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A client was served."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """A client went away or took too long: that is its own affair."""
        error = sys.exception()
        if isinstance(error, OSError):
            logger.debug("the monitor could not answer %s: %r", client_address, error)
        else:
            logger.error("This is a bug: the monitor could not answer %s", client_address, exc_info=error)


class _Handler(WSGIRequestHandler):
    """One client."""

    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gave it
        """Write no line for each probe."""

    def get_stderr(self) -> TextIO:
        """Drop what wsgiref says of clients that took no answer; the application logs its own errors."""
        return io.StringIO()
