"""The pages of a process for its operators: its metrics and whether it is well, from a thread of their own.

Knows HTTP, by the standard library's server, which serves one page in a thread each. Does not know what is measured,
nor what being well means.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from headrace.errors import PortTaken
from headrace.exporter.address import Address

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

# Seconds that a client may take for what it sends and reads.
_PATIENCE_S = 10
_JSON = ("Content-Type", "application/json")


class Pages:
    """A WSGI application of `/metrics` and pages of health."""

    def __init__(self, registry: CollectorRegistry, health: dict[str, Callable[[], str | None]]) -> None:
        """Say what there is.

        Args:
            registry: of the metrics.
            health: by path, what says why it is not well; None where it is.
        """
        self._metrics = make_wsgi_app(registry)
        self._health = health

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Serve one page."""
        path = environ["PATH_INFO"]
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics(environ, start)
            return page
        if path not in self._health:
            start("404 Not Found", [_JSON])
            known = ", ".join(("/metrics", *self._health))
            return [json.dumps({"error": f"there is no such page: there are {known}"}).encode()]
        reason = self._health[path]()
        # A list of its own for each: the server adds to it how long this page is (PEP 3333).
        start("200 OK" if reason is None else "503 Service Unavailable", [_JSON])
        found = {"status": "ok"} if reason is None else {"status": "unready", "reason": reason}
        return [json.dumps(found).encode()]


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
        """Not a line a scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, family: socket.AddressFamily, place: tuple[str, int]) -> None:
        self.address_family = family
        super().__init__(place, _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service who this is, and waits for it where there is none.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes while it is served is no error of ours."""


@contextmanager
def serving(pages: Pages, address: Address) -> Iterator[str]:
    """Serve while the context lasts.

    Yields:
        The URL, with the port that it took.

    Raises:
        PortTaken: it cannot listen there.
    """
    server = _listening(address)
    server.set_app(pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="pages", daemon=True)
    thread.start()
    try:
        host = f"[{address.host}]" if ":" in address.host else address.host
        yield f"http://{host or '0.0.0.0'}:{server.server_port}"  # noqa: S104 - how all addresses are written
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listening(address: Address) -> _Server:
    try:
        (family, _, _, _, place), *_ = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _Server(family, (str(place[0]), int(place[1])))
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}; choose another --listen, "
            "port 0 takes a free one"
        ) from error
