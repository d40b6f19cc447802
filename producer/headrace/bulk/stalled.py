"""Notices when chunks or results were lost, which no message tells.

Knows what the broker counts: of chunks that wait or are in a worker's hands, and of results. While it has either,
workers are merely slow, or gone for a while. Does not know which chunks are missing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace_contracts.api import in_words
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.bulk.queued import drop_done, num_queued
from headrace.bulk.results import Results

logger = logging.getLogger(__name__)

_LOOK_S = 5.0


class Stalled:
    """Watches one shard."""

    def __init__(self, nats: NatsClient, results: Results, model: str, subject: str) -> None:
        self._nats = nats
        self._results = results
        self._model = model
        self._subject = subject
        self._has_heard = False

    def heard(self) -> None:
        """A result came."""
        self._has_heard = True

    async def run(self, publish_again: Callable[[], Awaitable[None]]) -> None:
        """Look now and then, for ever; cancel to end.

        Args:
            publish_again: what to do once nothing is left that could still come.
        """
        is_renewed = False
        while True:
            self._has_heard = False
            await asyncio.sleep(_LOOK_S)  # what does not come is no event
            if self._has_heard or await self._may_come() or self._has_heard:
                is_renewed = False
            elif not is_renewed:
                # Results may have been sent here and been lost on the way.
                self._results.renew()
                is_renewed = True
            else:
                await publish_again()
                is_renewed = False

    async def _may_come(self) -> bool:
        """Whether the broker has chunks or results of the shard; in doubt it has."""
        try:
            queued = await num_queued(self._nats, self._model, self._subject)
            if queued and (dropped := await drop_done(self._nats, self._model, self._subject)):
                logger.warning("the broker kept %d chunks of %s that were acked: dropped", dropped, self._subject)
                queued -= dropped
            return queued > 0 or await self._results.num_waiting() > 0
        except (NatsError, OSError) as error:
            logger.info("the broker does not say what is queued: %s", in_words(error))
            return True
