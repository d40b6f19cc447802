"""Where a process listens for its operators.

Knows how an address is spelt. Does not know whether it can be had.
"""

import re
from dataclasses import dataclass

# A name, or an address of either kind, with its zone perhaps; empty for all.
_HOST = re.compile(r"[\w.:%-]*")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on.

    Attributes:
        host: a name or a number of this machine; empty is all of its interfaces.
        port: 0 takes a free one.
    """

    host: str
    port: int

    @classmethod
    def read(cls, text: str, what: str) -> "Address":
        """Read one as a command line spells it: 127.0.0.1:9464, [::1]:9464, :9464.

        Args:
            text: it.
            what: its name in the error.

        Raises:
            ValueError: it is spelt otherwise.
        """
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            colon = ""  # which of the colons is the last?
        if not (colon and port.isascii() and port.isdecimal() and int(port) <= 65535) or not _HOST.fullmatch(host):
            raise ValueError(
                f"{what} is {text!r}: write HOST:PORT, as 127.0.0.1:9464; without HOST it is all interfaces, an IPv6 "
                "one stands in [], and port 0 takes a free one"
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
