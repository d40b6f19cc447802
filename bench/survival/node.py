"""What a nats-server of a run is, however it is run: a process (process_node.py) or a container (container_node.py).

It knows what is asked of one, and of its monitoring port. It does not know the others.
"""

import json
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.error import HTTPError

from survival.place import Place

_ASK_S = 2.0
# No proxy that the environment names has a way to a server of ours.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Told: TypeAlias = dict[str, Any]


class Node(Protocol):
    """One server, which keeps its store and its address across its lives. Its methods block."""

    @property
    def name(self) -> str:
        """Its name, and its tag."""
        ...

    @property
    def url(self) -> str:
        """For clients."""
        ...

    @property
    def store(self) -> Path:
        """What it keeps."""
        ...

    @property
    def place(self) -> Place:
        """Where it runs."""
        ...

    @property
    def pid(self) -> int:
        """Of this life, as this machine counts.

        Raises:
            RuntimeError: It is down.
        """
        ...

    @property
    def is_running(self) -> bool:
        """Whether it is up, or frozen; False also if it has ended by itself."""
        ...

    @property
    def log(self) -> str:
        """All that it said, in all its lives."""
        ...

    def start(self) -> None:
        """Start it, or start it again, if it is down; it is not ready then."""
        ...

    def kill(self) -> None:
        """End it as a crash does, if it is up."""
        ...

    def stop(self) -> None:
        """End it as an operator does, if it is up; frozen, it goes on first."""
        ...

    def freeze(self) -> None:
        """Let it stand still with its connections open, if it is up."""
        ...

    def thaw(self) -> None:
        """Let it go on, if it is up."""
        ...

    def ask(self, path: str) -> Told:
        """What it says of itself, such as at /jsz.

        Raises:
            OSError: It says nothing.
        """
        ...


# Of one NATS stream, or of all that is JetStream.
_GIVEN_UP = (b"write error", b"JetStream not enabled")


def ask(monitor: str, path: str) -> Told:
    """What a server says of itself.

    Args:
        monitor: Where its monitoring port is, such as 127.0.0.1:8222.
        path: Such as /jsz.

    Raises:
        OSError: It says nothing.
    """
    try:
        with _OPENER.open(f"http://{monitor}{path}", timeout=_ASK_S) as answer:
            return dict(json.loads(answer.read()))
    except HTTPException as error:
        raise OSError(f"half an answer: {error}") from error  # it was killed as it spoke


def has_given_up(node: Node) -> bool:
    """Whether it takes no more messages because of its disk, as its health says: until it is started anew."""
    try:
        node.ask("/healthz")
    except HTTPError as error:
        with error:
            said = error.read()
        return any(sign in said for sign in _GIVEN_UP)
    except OSError:
        pass
    return False


def num_messages(node: Node, stream: str) -> int:
    """Messages of a NATS stream as this node has them; 0 where it has none.

    Raises:
        OSError: It says nothing.
    """
    accounts = node.ask("/jsz?streams=true")["account_details"]
    return sum(
        int(each["state"]["messages"])
        for account in accounts
        for each in account["stream_detail"]
        if each["name"] == stream
    )
