"""Clients of a server in processes of their own, who hand in their batches at the same moment.

It knows processes and barriers. It does not know the server: each process opens its own connection to it.
"""

import multiprocessing
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import numpy as np
from adapter import Client, Rows
from event_loop import runner

_ANSWER_S = 600.0
_END_S = 15.0

OpenClient = Callable[[], Awaitable[Client]]


class Crowd:
    """One process a batch, connected and ready while the context lasts."""

    def __init__(self, open_client: OpenClient, batches: Sequence[Sequence[str]]) -> None:
        """Say who hands in what.

        Args:
            open_client: Opens a connection; it must survive pickling.
            batches: Texts of each process.
        """
        # Not fork: the parent has threads and event loops.
        context = multiprocessing.get_context("spawn")
        self._members = []
        for batch in batches:
            ours, theirs = context.Pipe()
            process = context.Process(target=_member, args=(open_client, list(batch), theirs), daemon=True)
            self._members.append((process, ours, theirs))

    def __enter__(self) -> Self:
        for process, _, theirs in self._members:
            process.start()
            theirs.close()  # so that its end is heard here
        for _, ours, _ in self._members:
            _receive(ours)
        return self

    def run(self) -> Rows:
        """Let all hand in their batch now, and wait for the last one's rows; in the order of the batches."""
        for _, ours, _ in self._members:
            ours.send(True)
        return np.concatenate([_receive(ours) for _, ours, _ in self._members])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, ours, _ in self._members:
            ours.close()
            process.join(_END_S)
            process.kill()


def _receive(connection: Connection) -> Rows:
    if not connection.poll(_ANSWER_S):
        raise TimeoutError(f"a client did not answer within {_ANSWER_S:g} s")
    try:
        answer = connection.recv()
    except EOFError:
        raise RuntimeError("a client ended before it answered; see what it wrote") from None
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer  # type: ignore[no-any-return]


def _member(open_client: OpenClient, batch: list[str], orders: Connection) -> None:
    """Run one client until the other end is closed."""
    with runner() as loop:
        try:
            client = loop.run(_opened(open_client))
            orders.send(loop.run(_embed(client, batch[:1])))  # ready: what is set up at the first call is there
            while _is_ordered(orders):
                orders.send(loop.run(_embed(client, batch)))
            loop.run(client.close())
        except Exception as error:  # noqa: BLE001 - the parent must be told whatever it is
            orders.send(f"{type(error).__name__}: {error}")


async def _opened(open_client: OpenClient) -> Client:
    return await open_client()


async def _embed(client: Client, batch: list[str]) -> Rows:
    return await client.embed(batch)


def _is_ordered(orders: Connection) -> bool:
    try:
        return bool(orders.recv())
    except EOFError:
        return False
