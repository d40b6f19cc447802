"""Whether the server still answers: asked when somebody has waited in vain, and left for another one if it does not.

Knows that a server which is cut off or stands still says nothing, and that nats-py takes half a minute to notice. Does
not know who waits, nor for what. Where there is no other server, nobody leaves.
"""

import asyncio
import logging

from headrace_contracts.patient import Patient

logger = logging.getLogger(__name__)

# What a server that is well takes a millisecond for. In slices, so that a moment in which this process itself stood
# still costs one of them, and what came meanwhile is looked at.
_SLICES, _SLICE_S = 3, 0.1
# Between two departures: a machine that is too busy to answer in time must not send its clients round in circles.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0


class Doubt:
    """About the server that a client is connected to."""

    def __init__(self, nats: Patient) -> None:
        """Take the client, which may have no connection yet."""
        self._nats = nats
        self._asking: asyncio.Task[None] | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._may_leave_s = 0.0

    def cast(self) -> None:
        """See in the background whether the server answers; does not wait."""
        is_asking = self._asking is not None and not self._asking.done()
        if self._nats.is_connected and self._nats.num_servers > 1 and not is_asking:
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        if await self._nats.answers(_SLICES, _SLICE_S):
            self._pause_s = max(_FIRST_PAUSE_S, self._pause_s / 2)
            return
        # One that was lost meanwhile is replaced already.
        if loop.time() < self._may_leave_s or not self._nats.is_connected:
            return
        self._may_leave_s = loop.time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        logger.warning("nats-server at %s does not answer: trying another one", self._nats.server)
        await self._nats.leave()
