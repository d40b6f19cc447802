"""The consumers that workers pull by: what they hold, what came back, how many pulls wait.

Knows CONSUMER.INFO of the JetStream API. One request a NATS stream is dear: so some at a time, by one surveyor.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from headrace_contracts import topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient

_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Consumer:
    """The consumer of one queue, or of several together.

    Attributes:
        num_pending: messages that no worker has yet.
        num_unacked: messages that workers hold.
        num_redelivered: of these, those that came more than once.
        num_waiting: pulls of workers that wait for messages.
    """

    num_pending: int = 0
    num_unacked: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0

    def plus(self, other: "Consumer") -> "Consumer":
        """Both together."""
        return Consumer(
            self.num_pending + other.num_pending,
            self.num_unacked + other.num_unacked,
            self.num_redelivered + other.num_redelivered,
            self.num_waiting + other.num_waiting,
        )


async def read_consumers(nats: NatsClient, streams: Iterable[str], found: dict[str, Consumer]) -> None:
    """Put the workers' consumer of each NATS stream into `found`, under its name; none where there is none.

    What was read stays, whatever ends this.

    Raises:
        nats.errors.Error: the server cannot be reached, refuses, or says nothing of one; the others are read all
            the same.
    """
    places = asyncio.Semaphore(_AT_A_TIME)

    async def one(stream: str) -> None:
        async with places:
            info = await api(nats, f"CONSUMER.INFO.{stream}.{topology.CONSUMER}")
        if info is not None:
            found[stream] = Consumer(
                info["num_pending"], info["num_ack_pending"], info["num_redelivered"], info["num_waiting"]
            )

    ends = await asyncio.gather(*map(one, streams), return_exceptions=True)
    for error in ends:
        if error is not None:
            raise error
