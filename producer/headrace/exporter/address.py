"""Where a program listens, as it is written on a command line.

Pure. Does not know sockets.
"""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from headrace.errors import InputError


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port.

    Attributes:
        host: name or address; empty for all of this machine's.
        port: to listen on; 0 takes a free one.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, spelt: str) -> Self:
        """Read `HOST:PORT`, `:PORT` or `[IPv6]:PORT`.

        Raises:
            InputError: it is none of these.
        """
        try:
            parts = urlsplit(f"//{spelt}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        is_bare = spelt.count(":") == 1 or spelt.startswith("[")
        if port is None or not is_bare or any(sign in spelt for sign in "/?#@ "):
            raise InputError(f"{spelt!r} is no address: write HOST:PORT, or :PORT for all addresses of this machine")
        return cls(host, port)
