"""One shard of a bulk job, from its rows to the sink: read → prepare → publish → collect → write → remember → ack.

Knows the order of things, which is what makes a crash harmless: a window is remembered only once the sink has it, and
its results are acked only once it is remembered. Each word above has a file of its own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from headrace_contracts import DecodeError, Envelope, ErrorReply, Reply, decode_reply, subjects, topology
from headrace_contracts.api import api, in_words
from headrace_contracts.tracing import Tracing
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace.bulk.assembly import Assembly
from headrace.bulk.bulk_chunk import BulkChunk, window_of
from headrace.bulk.control import Control
from headrace.bulk.cut import Cut, Span, Spans
from headrace.bulk.jobs.claim import Claim
from headrace.bulk.jobs.record import Checkpoint, Tally
from headrace.bulk.lasting import lasting
from headrace.bulk.ledger import Ledger, Record
from headrace.bulk.prepare import Work, prepare
from headrace.bulk.progress import Progress
from headrace.bulk.publisher import Message, Publisher
from headrace.bulk.recording import record_of, tally_of
from headrace.bulk.results import Results
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Source
from headrace.bulk.stalled import Stalled
from headrace.bulk.tolerance import Tolerance
from headrace.bulk.window import Window, undone_windows
from headrace.bulk.window_span import WindowSpan
from headrace.errors import BulkError, JobFailed
from headrace.pauses import Pauses

logger = logging.getLogger(__name__)

# To tidy up for others when this process ends; they can do it themselves.
_LEAVE_S = 3.0
# One behind the other: then it is no accident.
_MAX_UNREADABLE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What all shards of one process share.

    Attributes:
        nats: the connection.
        publisher: the way into the batch queue.
        sink: where vectors go.
        ledger: what is written down beside it.
        source: the corpus.
        cut: the limits of windows.
        work: what is the same for all windows.
        permits: one a window in flight; so many bound the process's memory.
        preparing: held by the window that is tokenised.
        max_windows: how many permits there are.
        control: whether the job may go on.
        progress: what is shown of it.
        tolerance: how many rows may fail.
        looks_up: whether the sink may have rows already.
    """

    nats: NatsClient
    publisher: Publisher
    sink: SinkThread
    ledger: Ledger
    source: Source
    cut: Cut
    work: Work
    permits: asyncio.Semaphore
    preparing: asyncio.Lock
    max_windows: int
    control: Control
    progress: Progress
    tolerance: Tolerance
    looks_up: bool


@dataclass(slots=True, eq=False)
class InFlight:
    """A window on its way.

    Attributes:
        assembly: its vectors, as far as they are there.
        acks: ack subjects of all results that came for it.
        moved: set once there is something to send again, nothing is outstanding any more, or it has failed.
        to_send: chunks that are to be sent, and were not yet since then.
        copies: how often each chunk was published for a good reason; message ids are made of it.
        is_sent: whether all of its chunks are in the queue, or were.
        failure: why the job cannot go on.
        traceparent: names the window's span, where it is traced.
    """

    assembly: Assembly
    acks: set[str] = field(default_factory=set)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    to_send: list[BulkChunk] = field(default_factory=list)
    copies: dict[str, int] = field(default_factory=dict)
    is_sent: bool = False
    failure: BulkError | None = None
    traceparent: str | None = None


class ShardRun:
    """One shard in this process's hands."""

    def __init__(self, crew: Crew, claim: Claim, results: Results) -> None:
        """Take what it is made of.

        Args:
            crew: what the process's shards share.
            claim: this process's right to the shard, and how far it is.
            results: those of the shard.
        """
        self._crew = crew
        self._claim = claim
        self._results = results
        self._checkpoint = claim.checkpoint
        # The broker may have lost what it remembered; what is written down beside the sink is there.
        self._is_new = not claim.checkpoint.spans.spans
        self._saving = asyncio.Lock()
        self._in_flight: dict[int, InFlight] = {}
        # What was answered before is of an earlier process; by the broker's clock.
        self._since = datetime.min.replace(tzinfo=UTC)
        # Results of windows that an earlier process sent and this one has not read yet.
        self._early: dict[int, dict[str, Msg]] = {}
        self._num_unreadable = 0
        self._model, self._job = crew.work.card.model, crew.work.job
        self._subject = subjects.batch(self._model, self._job, claim.shard)
        self._purge_call = f"STREAM.PURGE.{subjects.batch_stream(self._model)}"
        self._tracing = Tracing.found()
        self._stalled = Stalled(crew.nats, results, self._model, self._subject)

    async def run(self, on_read: Callable[[], None]) -> None:
        """Bring the shard to its end.

        Args:
            on_read: called once all of it is read, so that the next shard may begin while the last windows run.

        Raises:
            ShardLost: another process has it now.
            BulkError: it cannot go on.
        """
        try:
            async with asyncio.TaskGroup() as helpers:
                helping = [helpers.create_task(lasting(self._claim.keep))]
                await self._prepare()
                helping.append(helpers.create_task(lasting(partial(self._results.run, self._take))))
                helping.append(helpers.create_task(lasting(partial(self._stalled.run, self._publish_again))))
                async with asyncio.TaskGroup() as self._tasks:
                    await self._read_windows()
                    on_read()
                for helper in helping:
                    helper.cancel()
        except BaseException:
            await self._leave()
            raise
        await self._claim.save(replace(self._checkpoint, is_done=True))
        await self._results.close()

    async def _prepare(self) -> None:
        """Find out where it stands."""
        pauses = Pauses()
        while True:
            await self._crew.control.may_go()
            try:
                # What an earlier process left in the queue would run beside what this one publishes.
                await self._purge()
                self._since = await self._now()
                break
            except (NatsError, OSError) as error:
                logger.info("the broker does not answer yet: %s", in_words(error))
                await asyncio.sleep(pauses.take_s())
        if self._is_new:
            self._checkpoint = await self._crew.sink.write(self._written_down)

    async def _leave(self) -> None:
        """Workers need not compute for nobody. Whoever goes on with the shard would do the same."""
        if self._claim.is_lost:
            return  # the queue has what its new owner published
        with contextlib.suppress(NatsError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._purge()

    async def _purge(self) -> None:
        await api(self._crew.nats, self._purge_call, {"filter": self._subject})

    async def _now(self) -> datetime:
        """The time by the clock that stamps results."""
        info = await api(self._crew.nats, f"STREAM.INFO.{topology.RESULTS_STREAM}")
        return self._since if info is None else datetime.fromisoformat(info["ts"])

    def _written_down(self) -> Checkpoint:
        """How far the shard is by the ledger. On the sink's thread."""
        records = self._crew.ledger.records(self._claim.shard).values()
        spans = [Span(each.window, each.window + 1, each.first, each.first + each.rows) for each in records]
        return Checkpoint(Spans.of(spans), Tally.sum(map(tally_of, records)))

    # -- read

    async def _read_windows(self) -> None:
        """Begin with each window that is not done, once there is room for it."""
        crew = self._crew
        windows = undone_windows(crew.source, self._claim.shard, crew.cut, self._checkpoint.spans)
        while True:
            await crew.permits.acquire()
            task: asyncio.Task[None] | None = None
            try:
                await crew.control.may_go()
                window = await asyncio.to_thread(next, windows, None)
                if window is None:
                    return
                crew.progress.rows_read += len(window.ids)
                task = self._tasks.create_task(self._bring_home(window))
                # Not by the task itself: one that is cancelled before it begins never gets that far.
                task.add_done_callback(lambda _: crew.permits.release())
            finally:
                if task is None:
                    crew.permits.release()

    # -- one window

    async def _bring_home(self, window: Window) -> None:
        """Prepare, publish, collect; then write, remember and ack."""
        if self._tracing is None:
            await self._bring(window, None)
            return
        span = WindowSpan(self._tracing, self._job, self._model, window)
        try:
            await self._bring(window, span)
        except BaseException as error:
            span.failed(error)
            raise
        finally:
            span.end()

    async def _bring(self, window: Window, span: WindowSpan | None) -> None:
        crew = self._crew
        crew.progress.windows_in_flight += 1
        try:
            stored = await crew.sink.lookup(window.ids) if crew.looks_up else {}
            # One after the other: the tokenizer takes all cores as it is, and workers wait for the first window.
            async with crew.preparing:
                assembly = await asyncio.to_thread(prepare, window, stored, crew.work)
            flight = self._in_flight[window.index] = InFlight(assembly)
            if span is not None:
                flight.traceparent = span.traceparent
                span.prepared(len(assembly.outstanding))
            for message in self._early.pop(window.index, {}).values():
                self._take(message)
            flight.to_send = list(assembly.outstanding.values())
            await self._collect(flight)
            if span is not None:
                span.collected(assembly.num_tokens, assembly.num_retried)
            await self._settle(flight)
        finally:
            self._in_flight.pop(window.index, None)
            crew.progress.windows_in_flight -= 1

    async def _collect(self, flight: InFlight) -> None:
        """Publish, and wait until all of it is answered; some of it may have to be sent again."""
        while flight.assembly.outstanding:
            flight.moved.clear()
            flight.is_sent = False
            while flight.to_send:
                chunks, flight.to_send = flight.to_send, []
                await self._publish(flight, chunks)
            flight.is_sent = True
            if flight.failure is None and flight.assembly.outstanding:
                await flight.moved.wait()
            if flight.failure is not None:
                raise flight.failure

    async def _publish(self, flight: InFlight, chunks: Sequence[BulkChunk]) -> None:
        await self._claim.confirm()  # nobody would wait for the results
        await self._crew.publisher.publish([self._message(flight, chunk) for chunk in chunks])

    def _message(self, flight: InFlight, chunk: BulkChunk) -> Message:
        copy = flight.copies[chunk.id] = flight.copies.get(chunk.id, -1) + 1
        envelope = Envelope(
            reply_to=subjects.results(self._job, self._claim.shard),
            tokens=chunk.num_tokens,
            tenant=self._job,
            # What an earlier owner published was purged, and must not keep the broker from taking it again.
            msg_id=f"{chunk.id}-{self._claim.token}-{copy}",
            traceparent=flight.traceparent,
        )
        return Message(self._subject, chunk.body, envelope.to_headers())

    async def _publish_again(self) -> None:
        """The queue has nothing of this shard and neither have the results: what is outstanding was lost."""
        for flight in [flight for flight in self._in_flight.values() if flight.is_sent]:
            lost = list(flight.assembly.outstanding.values())
            if lost:
                logger.warning(
                    "%d chunks of window %s were lost: sent again", len(lost), flight.assembly.sifted.window.name
                )
                self._crew.progress.retries += len(lost)
                await self._publish(flight, lost)

    # -- collect

    def _take(self, message: Msg) -> bool:
        """A result came: perhaps of a window that is done, or not read yet. Whether it is of no use to anybody."""
        try:
            reply = decode_reply(message.data)
        except DecodeError as error:
            self._num_unreadable += 1
            if self._num_unreadable > _MAX_UNREADABLE:
                raise JobFailed(
                    f"results of the fleet cannot be read: {error}; see which version its workers are"
                ) from error
            logger.warning("a result cannot be read, so its chunk is sent again when nothing else comes: %s", error)
            return True
        self._num_unreadable = 0
        index = window_of(reply.id)
        if index is None or self._checkpoint.spans.end_of(index) is not None:
            return True
        # What an earlier process was refused may since have been mended, and is sent again in any case.
        if isinstance(reply, ErrorReply) and message.metadata.timestamp < self._since:
            return True
        flight = self._in_flight.get(index)
        if flight is not None:
            self._take_in(flight, reply, message)
        # Of an earlier process that had more windows in flight, only so many: the others are sent again.
        elif index in self._early or len(self._early) < self._crew.max_windows:
            self._early.setdefault(index, {})[reply.id] = message
        return False

    def _take_in(self, flight: InFlight, reply: Reply | ErrorReply, message: Msg) -> None:
        """A result came of a window that is on its way."""
        flight.acks.add(message.reply)
        if reply.id in flight.assembly.outstanding:  # a copy is no sign that more will come
            self._stalled.heard()
        before = flight.assembly.num_tokens
        try:
            again = flight.assembly.take(reply)
        except BulkError as error:
            flight.failure = error
            flight.moved.set()
            return
        self._crew.progress.tokens_done += flight.assembly.num_tokens - before
        self._crew.progress.retries += len(again)
        flight.to_send += again
        if again or not flight.assembly.outstanding:
            flight.moved.set()

    # -- write, remember, ack

    async def _settle(self, flight: InFlight) -> None:
        """In this order: what is remembered must be in the sink, and what is acked must be remembered."""
        crew, assembly = self._crew, flight.assembly
        await self._claim.confirm()  # what its new owner has written must not be written over
        record = await crew.sink.write(partial(_keep, crew, assembly))
        tally = replace(tally_of(record), retried=assembly.num_retried)
        async with self._saving:
            checkpoint = Checkpoint(
                spans=self._checkpoint.spans.plus(assembly.sifted.window.span),
                tally=self._checkpoint.tally.plus(tally),
            )
            await self._claim.save(checkpoint)
            self._checkpoint = checkpoint
        await self._results.ack(flight.acks)
        crew.progress.rows_done += record.rows
        crew.progress.rows_unchanged += record.unchanged
        crew.progress.rows_failed += record.failed
        crew.tolerance.check(crew.progress.rows_failed, crew.progress.rows_done)


def _keep(crew: Crew, assembly: Assembly) -> Record:
    """Write a window to the sink, and write down that this was done. On the sink's thread."""
    part, failures = assembly.part(keep_texts=crew.work.keep_texts), assembly.failures()
    crew.sink.sink.write(part)
    record = record_of(assembly.sifted.window, part, failures, assembly.num_tokens)
    crew.ledger.write_errors(part.name, failures)
    crew.ledger.append(part.shard, record)
    return record
