"""The adapter of a server that speaks HTTP, whichever it is.

It knows how calls go over a client's event loop. It does not know what the server is: who opens it says so.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from event_loop import runner
from http_client import Connections, open_client
from http_dialects import Dialect


@dataclass(frozen=True, slots=True)
class Server:
    """What was found behind an address.

    Attributes:
        dialect: How to talk to it.
        versions: Of what runs there.
        settings: How it was started, as far as that is known.
    """

    dialect: Dialect
    versions: Mapping[str, str]
    settings: Mapping[str, str]


class OverHttp:
    """How to open clients of it."""

    versions: Mapping[str, str]
    settings: Mapping[str, str]

    def __init__(self, server: Server) -> None:
        """Take what was found."""
        self.open_client = partial(open_client, server.dialect)
        self.versions = server.versions
        self.settings = {**server.settings, **server.dialect.settings}


@contextmanager
def opened(find: Callable[[Connections], Awaitable[Server]]) -> Iterator[OverHttp]:
    """Ask a running server what it is, then be a client of it.

    Args:
        find: Asks it.
    """
    with runner() as loop:
        server = loop.run(_found(find))
    yield OverHttp(server)


async def _found(find: Callable[[Connections], Awaitable[Server]]) -> Server:
    connections = Connections()
    try:
        return await find(connections)
    finally:
        await connections.close()
