"""What is in this worker's hands: delivered and not yet settled.

Knows how to keep the broker from redelivering it meanwhile, and counts its tokens. Does not know where in the worker
each message is.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from headrace_contracts.api import in_words
from nats.errors import Error as NatsError

from headrace_workers.counters import Counters
from headrace_workers.delivery import Delivery

logger = logging.getLogger(__name__)

_GIVE_BACK_AFTER_S = 1.0


class Hold:
    """The set of unsettled deliveries. `on_settled` is called after each one leaves it.

    Attributes:
        empty: set while there are none.
    """

    def __init__(self, counters: Counters, on_settled: Callable[[], None]) -> None:
        self._counters = counters
        self._on_settled = on_settled
        self._deliveries: set[Delivery] = set()
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self._deliveries)

    def add(self, delivery: Delivery) -> None:
        """A message came in."""
        self._counters.arrive(delivery)
        self._deliveries.add(delivery)
        self.empty.clear()

    def weigh(self, delivery: Delivery, num_tokens: int) -> None:
        """It turned out to hold so many tokens."""
        delivery.num_tokens = num_tokens
        self._counters.hold(delivery)

    def remove(self, delivery: Delivery) -> None:
        """A message was settled."""
        self._deliveries.discard(delivery)
        self._counters.let_go(delivery)
        if not self._deliveries:
            self.empty.set()
        self._on_settled()

    async def keep_in_progress(self, every_s: float) -> None:
        """Tell the broker, for ever, that what is held is being worked on; cancel to end."""
        while True:
            await asyncio.sleep(every_s)
            for delivery in self.all():
                with contextlib.suppress(NatsError, OSError):
                    await delivery.in_progress()

    def all(self) -> tuple[Delivery, ...]:
        """What is held now."""
        return tuple(self._deliveries)

    async def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Let other workers have what this one will not run any more.

        After a moment, so that it does not come back to a worker that is about to end.
        """
        for delivery in deliveries:
            try:
                await delivery.nak(_GIVE_BACK_AFTER_S)
                self._counters.given_back += 1
            except (NatsError, OSError) as error:
                logger.warning("could not give a message back, the broker will redeliver: %s", in_words(error))
                delivery.abandon()
                self._counters.abandoned += 1
