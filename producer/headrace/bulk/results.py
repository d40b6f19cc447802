"""The results of one shard, as workers put them into HR_RESULTS, and their acks.

Knows when they are asked for anew: by whoever takes the shard over, and after each reconnection, from all that is not
acked on. Knows no replies, nor when one may be acked: what is never acked comes again.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import TypeAlias

from headrace_contracts import topology
from headrace_contracts.api import in_words
from headrace_contracts.connection import Link
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace.bulk.results_consumer import NoConsumer, ResultsConsumer
from headrace.errors import AccessDenied
from headrace.pauses import Pauses

logger = logging.getLogger(__name__)

# Takes in a result, and says whether the broker may forget it at once.
Take: TypeAlias = Callable[[Msg], bool]

_BATCH = 256
_EXPIRES_S = 5.0
_LONGEST_S = 60.0
_STREAM = topology.RESULTS_STREAM
_ACK = b"+ACK"
# Ends of a pull for which nothing is wrong: nothing more came in time.
_LAPSED = frozenset({"404", "408"})


class Results:
    """Those of one shard of one job."""

    def __init__(self, nats: NatsClient, link: Link, job: str, shard: int) -> None:
        self._nats = nats
        self._link = link
        self._shard = shard
        self._consumer = ResultsConsumer(nats, job, shard)
        self._pulls = count()
        self._pull_inbox = ""
        self._ended: asyncio.Future[None] | None = None
        self._trouble: Exception | None = None
        self._is_stale = True

    async def run(self, take: Take) -> None:
        """Hand over each result that comes, for ever; cancel to end.

        Raises:
            AccessDenied: this user may not.
            Exception: what `take` raised.
        """
        inbox = self._nats.new_inbox()
        # Limits off: what can come is bounded by the windows on their way.
        inflow = await self._nats.subscribe(
            f"{inbox}.*", cb=partial(self._on_message, take), pending_msgs_limit=0, pending_bytes_limit=0
        )
        try:
            await self._pull_for_ever(inbox)
        finally:
            with contextlib.suppress(NatsError, OSError):
                await inflow.unsubscribe()

    async def _pull_for_ever(self, inbox: str) -> None:
        pauses, said = Pauses(), set[str]()
        while True:
            await self._link.up.wait()
            try:
                # Whatever nats-py waits for: a shard whose results nobody asks for would never end.
                async with asyncio.timeout(_LONGEST_S):
                    if self._is_stale:
                        self._is_stale = False
                        await self._consumer.make()
                    await self._pull(inbox)
            except NotAllowed as error:
                raise AccessDenied(str(error)) from error
            except (NatsError, OSError) as error:  # a timeout is one, too
                why = in_words(error)
                # Each trouble once: what stands in the way later may be another one than what did first.
                level = logging.DEBUG if why in said else logging.WARNING
                logger.log(level, "the results of shard %d do not come, to be asked for again: %s", self._shard, why)
                said.add(why)
                self._is_stale = True
                await asyncio.sleep(pauses.take_s())
            else:
                pauses, said = Pauses(), set()

    def renew(self) -> None:
        """Make the consumer anew: what was delivered and not acked may never have come."""
        self._is_stale = True
        self._end()

    async def ack(self, acks: Iterable[str]) -> None:
        """Let the broker forget results, by their ack subjects. Should it not hear of one, that is for the end."""
        with contextlib.suppress(NatsError):
            for subject in acks:
                await self._nats.publish(subject, _ACK)

    async def close(self) -> None:
        """All is done: forget what is left, copies of what was answered twice, and the consumer."""
        await self._consumer.close()

    async def num_waiting(self) -> int:
        """Results in the broker that this process has not been sent yet."""
        return await self._consumer.num_waiting()

    async def _pull(self, inbox: str) -> None:
        """Take what comes for a while, or until there is trouble."""
        self._ended = asyncio.get_running_loop().create_future()
        # One of its own: what ends an earlier pull must not end this one.
        self._pull_inbox = f"{inbox}.{next(self._pulls)}"
        self._num_left = _BATCH
        request = {"batch": _BATCH, "expires": int(_EXPIRES_S * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{self._consumer.name}"
        try:
            await self._nats.publish(subject, json.dumps(request).encode(), reply=self._pull_inbox)
            async with asyncio.timeout(2 * _EXPIRES_S):
                await self._ended
        finally:
            # That its consumer is gone, which comes as soon as a new one is made, says nothing of the next pull.
            self._pull_inbox = ""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    async def _on_message(self, take: Take, message: Msg) -> None:
        if not message.reply:
            found = message.headers or {}
            if message.subject == self._pull_inbox:
                status = found.get("Status", "")
                self._end(None if status in _LAPSED else NoConsumer(f"{status} {found.get('Description', '')}".strip()))
            return
        try:
            if take(message):
                await self.ack([message.reply])
        except Exception as error:  # noqa: BLE001 - nats-py would keep it to itself, and the job would wait for ever
            self._end(error)
        self._num_left -= 1
        if not self._num_left:
            self._end()
        # nats-py hands over all that has come in one go, unless somebody lets others have their turn.
        await asyncio.sleep(0)

    def _end(self, trouble: Exception | None = None) -> None:
        self._trouble = self._trouble or trouble
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
