"""What a contender is to the benchmark: a library that is called in its process, or a server that clients connect to.

It knows protocols. Everything that measures is made for these two.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]


class Contender(Protocol):
    """What both have.

    Attributes:
        versions: Of the packages that decide its speed.
        settings: Its settings, in words.
    """

    versions: Mapping[str, str]
    settings: Mapping[str, str]


@runtime_checkable
class Library(Contender, Protocol):
    """One that computes in the process that calls it. It may also have a `crew`: see desk.py."""

    def embed(self, texts: Sequence[str]) -> Rows:
        """[n, dim], normalised, in order; texts may be up to 512 tokens. Tokenising is part of it."""
        ...

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits, in order."""
        ...


class Client(Protocol):
    """A connection to a server."""

    async def embed(self, texts: Sequence[str]) -> Rows:
        """As Library.embed."""
        ...

    async def score(self, query: str, documents: Sequence[str]) -> Rows:
        """As Library.score."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


@runtime_checkable
class Server(Contender, Protocol):
    """One that computes elsewhere.

    Attributes:
        open_client: Opens a client, in the event loop that will use it. It must survive pickling, since some clients
            run in processes of their own: a function of a module, with its arguments bound by functools.partial.
    """

    @property
    def open_client(self) -> Callable[[], Awaitable[Client]]:
        """See above."""
        ...
