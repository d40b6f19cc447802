"""Serves a process's pages from threads of its own, so that one whose event loop or device hangs still says so.

Knows sockets and threads, by the standard library's WSGI server, and bounds what clients can take of both: slow ones
keep nobody out, and one that goes is its own affair. Does not know what is on a page (pages.py).
"""

import contextlib
import io
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from headrace_contracts.address import Address
from headrace_contracts.pages import Pages

logger = logging.getLogger(__name__)

# Seconds that a client may take to send the next bytes, or to take the next.
_PATIENCE_S = 5.0
# Of those that are served at a time. One more takes the place of the oldest: slow clients cannot keep a probe out.
_MAX_CLIENTS = 16
# After which it sees that it is told to end; socketserver has no event for that.
_END_S = 0.1


@contextmanager
def serving(pages: Pages, address: Address) -> Iterator[Address]:
    """Listen and answer while the context lasts; gives the address with the port that was taken.

    Raises:
        OSError: it is taken, or not one of this machine.
    """
    with _Server(address) as server:
        server.set_app(pages)
        thread = threading.Thread(target=server.serve_forever, args=(_END_S,), name="pages", daemon=True)
        thread.start()
        try:
            yield Address(address.host, server.server_port)
        finally:
            server.shutdown()
            thread.join()


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
            logger.debug("no page could be served to %s: %r", client_address, error)
        else:
            logger.error("This is a bug: no page could be served to %s", client_address, exc_info=error)


class _Handler(WSGIRequestHandler):
    """One client."""

    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gave it
        """Write no line for each probe."""

    def get_stderr(self) -> TextIO:
        """Drop what wsgiref says of clients that took no answer; the application logs its own errors."""
        return io.StringIO()
