"""Lets the chunks of a large online call go, as many at a time as its window says.

Knows that a queue may have no room for one chunk of a call of which it has let in others: that one waits, or else the
call would be refused for its own size. Does not know what a chunk is, nor the deadline: asking ends by it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from headrace_contracts import Usage

from headrace.call_window import LEAST, CallWindow
from headrace.errors import Overloaded
from headrace.pauses import Pauses


class Pace:
    """The places of one call's chunks: each that is on its way has one."""

    def __init__(self) -> None:
        self._window = CallWindow()
        self._places = asyncio.Semaphore(LEAST)
        self._num_out = 0
        self._is_let_in = False

    async def take_place(self) -> None:
        """Wait until one more chunk may go."""
        await self._places.acquire()

    async def send(self, ask: Callable[[], Awaitable[Usage | None]]) -> None:
        """Ask for a chunk that has taken its place, and again while it is refused and others of the call were let in.

        Raises:
            Overloaded: it is refused, and no other was let in.
            HeadraceError: whatever else `ask` raises.
        """
        pauses = Pauses()
        while not await self._is_answered(ask):
            if self._num_out:
                # It gives up its place: a reply to another says that there is room again.
                self._window.refused()
                await self._places.acquire()
            else:
                await asyncio.sleep(pauses.take_s())

    async def _is_answered(self, ask: Callable[[], Awaitable[Usage | None]]) -> bool:
        self._num_out += 1
        try:
            usage = await ask()
        except Overloaded:
            if self._num_out == 1 and not self._is_let_in:
                raise
            return False
        finally:
            self._num_out -= 1
        self._is_let_in = True
        for _ in range(1 if usage is None else self._window.freed_by(usage)):
            self._places.release()
        return True
