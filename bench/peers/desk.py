"""Where the clients of a library wait for it: first come, first served.

It knows threads and queues. A library computes with all its threads for one caller at a time, on the thread that loaded
it: a second one would bring a second set of compute threads. One that is faster with several callers at once offers a
`crew`: then each member serves from a thread of its own, with its share of the compute threads.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Self

import numpy as np
from adapter import Library, Rows

Embed = Callable[[Sequence[str]], Rows]

_Order = tuple[Sequence[str], "Future[Rows]"]


class Desk:
    """Takes orders from any thread."""

    def __init__(self, servers: Sequence[Embed]) -> None:
        """Take who serves: one serves on the thread that calls `serve_until_done`, several on threads of their own."""
        self._servers = servers
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()

    @classmethod
    def of(cls, library: Library, num_clients: int) -> Self:
        """A desk for so many clients: of the crew, if there is one and more than one client."""
        crew: Sequence[Embed] = getattr(library, "crew", ())
        return cls(crew if crew and num_clients > 1 else (library.embed,))

    def ask(self, texts: Sequence[str]) -> Rows:
        """Hand in an order and wait for it."""
        order: Future[Rows] = Future()
        self._orders.put((texts, order))
        return order.result()

    def warm_up(self, texts: Sequence[str]) -> None:
        """Let each who serves do it once, on this thread."""
        for embed in self._servers:
            embed(texts)

    def serve_until_done(self, clients: Iterable["Future[None]"]) -> None:
        """Serve until all clients have ended."""
        with ThreadPoolExecutor(1 + len(self._servers)) as threads:
            threads.submit(self._close_after, list(clients))
            if len(self._servers) == 1:
                self._serve(self._servers[0])
            else:
                list(threads.map(self._serve, self._servers))

    def _close_after(self, clients: "list[Future[None]]") -> None:
        wait(clients)
        for _ in self._servers:
            self._orders.put(None)

    def _serve(self, embed: Embed) -> None:
        while (taken := self._orders.get()) is not None:
            texts, order = taken
            try:
                order.set_result(embed(texts))
            except Exception as error:  # noqa: BLE001 - it is the client's
                order.set_exception(error)


def embed_all(library: Library, batches: Sequence[Sequence[str]]) -> Rows:
    """The rows of all batches, in order: one batch after the other, or several at once by a crew."""
    desk = Desk.of(library, len(batches))
    with ThreadPoolExecutor(len(batches)) as threads:
        rows: list[Rows | None] = [None] * len(batches)

        def client(index: int) -> None:
            rows[index] = desk.ask(batches[index])

        clients = [threads.submit(client, index) for index in range(len(batches))]
        desk.serve_until_done(clients)
        for each in clients:
            each.result()
        return np.concatenate([each for each in rows if each is not None])
