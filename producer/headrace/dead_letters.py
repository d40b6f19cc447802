"""The dead letters of the fleet: NATS stream HR_DEAD, read, replayed and removed.

Knows the broker. Does not know which letters somebody wants, nor how they are shown.
"""

import contextlib
import time
from collections.abc import AsyncGenerator

from headrace_contracts import subjects
from headrace_contracts.errors import InvalidName
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from headrace.errors import HeadraceError
from headrace.letter import Letter
from headrace.reach import failure

_STREAM = "HR_DEAD"
# Letters that are asked for at a time: chunks, of some ten kilobytes each.
_BATCH = 100
_FETCH_S = 5.0
_INACTIVE_S = 60.0
# JetStream error codes.
_FULL = 10077
_GONE = frozenset({10037, 10043, 10057, 10059})


class NotReplayed(HeadraceError):
    """Raised when a letter stays where it is; the text says why, and what would help."""


class DeadLetters:
    """Reads, replays and removes dead letters. All methods raise ConnectionFailed when nats-server does not answer."""

    def __init__(self, nats: NatsClient) -> None:
        self._jetstream = nats.jetstream()

    async def read(self, *, first: int = 1, last: int | None = None) -> AsyncGenerator[Letter]:
        """The letters that are there now, oldest first; few are in memory at a time.

        Args:
            first: number of the first in question.
            last: of the last; None is the last one that is there now.
        """
        try:
            state = (await self._jetstream.stream_info(_STREAM)).state
            end = state.last_seq if last is None else min(last, state.last_seq)
            first = max(first, state.first_seq)
            if first > end or not state.messages:
                return
            inflow = await self._open(first)
            try:
                async for message in _messages(inflow, end):
                    meta = message.metadata
                    yield Letter.read(
                        meta.sequence.stream, meta.timestamp, message.subject, message.headers, message.data
                    )
            finally:
                with contextlib.suppress(NatsError, TimeoutError):
                    name = (await inflow.consumer_info()).name
                    await inflow.unsubscribe()
                    await self._jetstream.delete_consumer(_STREAM, name)
        except NotFoundError:
            return  # no worker has ever been there
        except (NatsError, TimeoutError) as error:
            raise failure("could not read the dead letters", error) from error

    async def _open(self, first: int) -> JetStreamContext.PullSubscription:
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=first,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_INACTIVE_S,
            mem_storage=True,
            num_replicas=1,
        )
        return await self._jetstream.pull_subscribe("hr.dead.>", stream=_STREAM, config=config)

    async def replay(self, letter: Letter, *, force: bool = False) -> None:
        """Publish a letter's chunk where it was published first, then forget the letter.

        Whatever ends it midway, the chunk is not lost; it may come twice, as any chunk may.

        Args:
            letter: which.
            force: also one whose caller waits no more, so that its reply is heard by nobody.

        Raises:
            NotReplayed: it stays.
        """
        if not (letter.is_bulk or force):
            raise NotReplayed("whoever asked has long had the error as a reply, and listens no more: --force runs it")
        try:
            subject = letter.subject
        except InvalidName as error:
            raise NotReplayed(f"it cannot be told where it was published first: {error}") from error
        if subject is None:
            raise NotReplayed("it cannot be told where it was published first: its headers do not say so")
        try:
            await self._jetstream.publish(subject, letter.body, headers=letter.again(time.time_ns() // 1_000_000))
        except NoStreamResponseError as error:
            raise NotReplayed(f"no NATS stream takes {subject}: start a worker that serves {letter.model}") from error
        except APIError as error:
            if error.err_code == _FULL:
                raise NotReplayed(f"the queue of {letter.model} is full: try again when there is room") from error
            raise NotReplayed(f"nats-server refuses it on {subject}: {error.description}") from error
        except (NatsError, TimeoutError) as error:
            raise failure(f"could not replay dead letter {letter.seq}", error) from error
        await self._forget(letter)

    async def remove(self, seq: int) -> bool:
        """Forget a letter and its chunk; whether it was there."""
        try:
            return await self._delete(seq)
        except (NatsError, TimeoutError) as error:
            raise failure(f"could not remove dead letter {seq}", error) from error

    async def count(self, model: str | None = None) -> tuple[int, int]:
        """How many letters there are, and the number of the last one that was ever kept.

        Args:
            model: whose; None counts all.

        Raises:
            InvalidName: no model can have this name.
        """
        try:
            state = (await self._jetstream.stream_info(_STREAM, subjects_filter=_subject(model))).state
        except NotFoundError:
            return 0, 0  # no worker has ever been there
        except (NatsError, TimeoutError) as error:
            raise failure("could not count the dead letters", error) from error
        return sum((state.subjects or {}).values()), state.last_seq

    async def remove_all(self, last: int, model: str | None = None) -> None:
        """Forget all letters at once.

        Args:
            last: number of the last one to be removed; those that came after it stay.
            model: whose; None takes those of all.

        Raises:
            InvalidName: no model can have this name.
        """
        subject = _subject(model)
        try:
            await self._jetstream.purge_stream(_STREAM, seq=last + 1, subject=subject)
        except NotFoundError:
            return
        except (NatsError, TimeoutError) as error:
            raise failure("could not remove the dead letters", error) from error

    async def _forget(self, letter: Letter) -> None:
        try:
            await self._delete(letter.seq)
        except (NatsError, TimeoutError) as error:
            text = f"dead letter {letter.seq} was replayed and could not be removed, so a second replay runs it again"
            raise failure(text, error) from error

    async def _delete(self, seq: int) -> bool:
        """Whether it was there: somebody else may have taken it meanwhile, or it was too old to be kept."""
        try:
            await self._jetstream.delete_msg(_STREAM, seq)
        except APIError as error:
            if error.err_code not in _GONE:
                raise
            return False
        return True


def _subject(model: str | None) -> str:
    """Where a model's letters lie, in both classes; or all of them."""
    return f"{subjects.DEAD_ROOT}." + (">" if model is None else f"{subjects.model_name(model)}.*")


async def _messages(inflow: JetStreamContext.PullSubscription, end: int) -> AsyncGenerator[Msg]:
    """What the consumer has, up to a sequence number."""
    while True:
        try:
            found = await inflow.fetch(_BATCH, timeout=_FETCH_S)
        except TimeoutError:
            if (await inflow.consumer_info()).num_pending:
                raise
            return  # the rest was removed meanwhile
        for message in found:
            meta = message.metadata
            if meta.sequence.stream > end:
                return
            yield message
            if meta.sequence.stream == end or not meta.num_pending:
                return
