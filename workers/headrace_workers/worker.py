"""The worker: pull → schedule → run → reply → settle.

Knows the order of things and nothing of their insides: each word above has a file of its own. One worker serves one
model on one device. While the device runs a step, the next one is packed and the one before is answered. It may be told
to drain, and to take work again; its end is a drain, too.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from headrace_contracts import (
    DecodeError,
    ErrorCode,
    ModelSpec,
    Priority,
    Usage,
    WorkerState,
    decode_cancel,
    limits,
    subjects,
)
from headrace_contracts.api import in_words
from headrace_engine import BatchError
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace_workers.announcer import Announcer
from headrace_workers.answer import Answers
from headrace_workers.broker import Broker
from headrace_workers.config import WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.delivery import Delivery
from headrace_workers.errors import DeviceFailed, Stopping, WorkerError
from headrace_workers.fleet import View
from headrace_workers.given_up import GivenUp
from headrace_workers.hold import Hold
from headrace_workers.lane import Lane, is_out_of_memory
from headrace_workers.provision import Provision
from headrace_workers.pull import Puller, PullHooks, PullLimits
from headrace_workers.purse import Purse
from headrace_workers.reading import Reading
from headrace_workers.schedule import Plan, Scheduler
from headrace_workers.spans import Spans
from headrace_workers.spec import Budgets
from headrace_workers.step import Packed, Step
from headrace_workers.work import Refused, Work, accept, cancelled, expired, request_id

logger = logging.getLogger(__name__)

T = TypeVar("T")

# From this delivery on a chunk runs alone: if it is what ended two workers, it ends no neighbour's chance with its own.
_SUSPECT = 3


class Worker:
    """Serves one model from one connection until it is told to stop.

    Attributes:
        name: its own.
        broker: the connection.
        lane: holds the engine.
        spec: of the model that it serves.
        counters: what it did so far.
    """

    def __init__(
        self,
        broker: Broker,
        lane: Lane,
        spec: ModelSpec,
        budgets: Budgets,
        config: WorkerConfig,
        provision: Provision,
        ack_wait_s: float,
    ) -> None:
        """Take what a worker is made of.

        Args:
            broker: the connection.
            lane: holds the engine.
            spec: of the model.
            budgets: of tokens.
            config: settings.
            provision: makes sure that the broker has all that the model needs, whenever that is in doubt.
            ack_wait_s: the shortest ack wait of the model's consumers.
        """
        self.name = config.worker
        self.broker = broker
        self._nats, self._link = broker.nats, broker.link
        self.lane = lane
        self.counters = Counters()
        self.spec = spec
        self._config = config
        self._provision = provision
        self._ack_wait_s = ack_wait_s
        self._scheduler: Scheduler[Work] = Scheduler(budgets.step_tokens, config.batch_floor)
        self._spans = Spans.found(spec.name, config.worker)
        self._answers = Answers(
            broker.nats, spec, config.worker, self.counters, lane.engine.checkpoint.activation, self._spans
        )
        self._arrived = asyncio.Event()
        self._hold = Hold(self.counters, self._arrived.set)
        self._purses: dict[Priority, Purse] = {
            "online": Purse(budgets.online_bytes, least=budgets.queue_bytes),
            "batch": Purse(budgets.batch_bytes),
        }
        self._pullers = self._make_pullers(budgets)
        self._given_up = GivenUp()
        self._announcer = Announcer(broker, spec, config, budgets.rate)
        self._takes_work = True
        self._is_ending = self._no_more = self._has_failed = False
        self._link.on_down, self._link.on_up = self._on_down, self._on_up

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then drain and return.

        Raises:
            WorkerError: it cannot go on; what was in hand is given back.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._nats.subscribe(subjects.cancel(self.spec.name), cb=self._on_cancel)
                keeping = self._do(self._hold.keep_in_progress(self._ack_wait_s / 3))
                announcing = self._do(self._announcer.run())
                stepping = self._do(self._run_steps())
                pulling = [self._do(puller.run()) for puller in self._pullers]
                self._allow_pulls()
                await stop.wait()
                await self._end(stepping)
                for task in (announcing, keeping, *pulling):
                    task.cancel()
        except BaseExceptionGroup as failed:
            await self._hold.give_back(self._hold.all())
            errors = failed.subgroup(WorkerError)
            if errors is None:
                raise
            raise errors.exceptions[0] from None

    def _do(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do it beside all else; should it fail, the worker cannot go on, and takes nothing more in."""

        async def done() -> T:
            try:
                return await work
            except Exception:
                self._has_failed = True
                raise

        return self._tasks.create_task(done())

    def num_queued(self, priority: Priority) -> int:
        """Chunks of a class that are in hand and wait for a step."""
        return self._scheduler.num_queued(priority)

    @property
    def is_idle(self) -> bool:
        """Whether no step runs, and none could."""
        return not self._scheduler and self.lane.busy_since_s is None

    @property
    def num_held(self) -> int:
        """Chunks in hand."""
        return len(self._hold)

    @property
    def num_open_pulls(self) -> int:
        """Pulls that may still bring work."""
        return sum(not puller.at_rest.is_set() for puller in self._pullers)

    @property
    def trouble(self) -> str:
        """Why no online work can be pulled, from any queue; empty while some can."""
        found = [puller.trouble for puller in self._pullers if puller.priority == "online"]
        return found[0] if all(found) else ""

    @property
    def num_without_room(self) -> int:
        """Chunks in hand that have run, and whose result the broker has no room for yet."""
        return self._answers.num_without_room

    def reading(self) -> Reading:
        """What is in hand and at work now; for the event loop to ask."""
        return Reading.of(self._scheduler, self._purses, self.lane, self._announcer.rate)

    @property
    def state(self) -> WorkerState:
        """Whether it takes work; and if not, whether some is still in hand or on its way here."""
        if self._takes_work:
            return "serving"
        is_done = self._hold.empty.is_set() and all(puller.at_rest.is_set() for puller in self._pullers)
        return "drained" if is_done else "draining"

    def drain(self) -> None:
        """Take no more work, finish what is in hand, and stay; nothing changes if that was said before."""
        if not self._takes_work:
            return
        logger.info("draining: %d messages in hand", len(self._hold))
        self._takes_work = False
        self._announcer.leave()
        for puller in self._pullers:
            puller.pause()

    async def drained(self) -> None:
        """Wait until nothing is in hand, nor on its way here. Of a worker that serves, that is some moment or other."""
        for puller in self._pullers:
            await puller.at_rest.wait()
        await self._hold.empty.wait()

    def resume(self) -> None:
        """Take work again; nothing changes if it does.

        Raises:
            Stopping: it is about to end.
        """
        if self._is_ending:
            raise Stopping("the worker is about to end, and takes no work again: start another one")
        if self._takes_work:
            return
        logger.info("taking work again")
        self._takes_work = True
        self._announcer.come_back()
        for puller in self._pullers:
            puller.resume()

    @property
    def fleet(self) -> View:
        """The workers of the model, as this one sees them."""
        return self._announcer.view

    # -- pull

    def _make_pullers(self, budgets: Budgets) -> list[Puller]:
        hooks = PullHooks(
            on_delivery=self._on_delivery,
            on_settled=self._hold.remove,
            on_missing=self._provision.stream,
            is_idle=lambda: not self._hold,
        )

        def puller(stream: str, priority: Priority) -> Puller:
            return Puller(
                self._nats,
                stream,
                priority,
                self._purses[priority].share(),
                PullLimits(
                    min_bytes=budgets.min_pull_bytes,
                    idle_bytes=budgets.step_tokens * limits.TOKEN_BYTES,
                    expires_s=self._config.pull_expires_s,
                ),
                hooks,
            )

        model = self.spec.name
        return [
            *(puller(subjects.online_stream(model, *queue), "online") for queue in self.spec.online_queues),
            puller(subjects.batch_stream(model), "batch"),
        ]

    async def _on_delivery(self, delivery: Delivery) -> None:
        """Something came in; if this worker cannot go on, it is for another one."""
        self._hold.add(delivery)
        if self._has_failed:
            await self._hold.give_back((delivery,))
        else:
            self._take(delivery)

    def _take(self, delivery: Delivery) -> None:
        """Queue it, or refuse it."""
        if self._spans is not None:
            self._spans.receive(delivery)
        if delivery.priority == "online" and (patience_s := delivery.patience_s) is not None:
            self._announcer.patience.add(delivery.stream, patience_s)
        try:
            work = accept(
                delivery,
                self.spec,
                max_deliveries=self._config.max_deliveries,
                now_ms=_now_ms(),
                given_up=self._given_up,
            )
        except Refused as refused:
            self._do(self._answers.refuse(delivery, refused))
            return
        if self._spans is not None:
            self._spans.accepted(work)
        self._hold.weigh(delivery, work.chunk.num_tokens)
        self._announcer.rate.arrive(delivery.num_pending)
        if delivery.priority == "online":
            self._announcer.weight.add(delivery.stored_bytes, work.chunk.num_tokens)
        if not work.num_tokens:
            self._do(self._answer_without_step(work))
        elif delivery.count >= _SUSPECT:
            self._scheduler.push_apart((work,))
        else:
            self._scheduler.push(delivery.priority, work)
        self._arrived.set()

    async def _on_cancel(self, message: Msg) -> None:
        """Callers gave chunks up, which may be queued here, on their way, or never come."""
        try:
            self._given_up.add(decode_cancel(message.data).ids)
        except DecodeError as error:
            logger.debug("a message on %s cannot be read: %s", message.subject, error)
            return
        self._arrived.set()  # for what waits to be dropped, and not only when the next one comes

    def _on_down(self) -> None:
        """The connection was lost, and with it the open pulls."""
        logger.info("disconnected from nats-server")
        for puller in self._pullers:
            puller.on_down()

    def _on_up(self) -> None:
        """The connection was made anew; the broker may have lost what it held in memory."""

        async def recover() -> None:
            try:
                await self._provision.all(self._allow_pull)
            except (NatsError, OSError) as error:
                # The pull that needs it fails and asks again.
                logger.warning("the broker is not ready yet: %s", in_words(error))
            self._allow_pulls()

        logger.info("reconnected to nats-server")
        if not self._no_more and not self._has_failed:
            self._do(recover())

    def _allow_pulls(self) -> None:
        for puller in self._pullers:
            self._allow_pull(puller.stream)

    def _allow_pull(self, stream: str) -> None:
        """It is there, and need not wait for the others: their server may be gone."""
        for puller in self._pullers:
            if puller.stream == stream and self._link.up.is_set():  # or else _on_up follows
                puller.on_up()

    # -- schedule and run

    async def _run_steps(self) -> None:
        """Keep the device busy: pack ahead, hand over when it is free, leave the answer to a task."""
        while (plan := await self._next_plan()) is not None:
            packed = Packed.of(plan.works)
            if not self.lane.is_free:
                await self.lane.free()
                if (fresh := self._plan()) is None:
                    continue
                if fresh != plan:
                    plan, packed = fresh, Packed.of(fresh.works)
            self._scheduler.take(plan)
            self._do(self._answer(self._start(plan, packed)))

    async def _next_plan(self) -> Plan[Work] | None:
        while (plan := self._plan()) is None and not (self._has_failed or (self._no_more and not self._hold)):
            self._arrived.clear()
            self.lane.rest()
            self._announcer.rate.wait()
            await self._arrived.wait()
        return plan

    def _plan(self) -> Plan[Work] | None:
        if self._has_failed or not self._scheduler:
            return None
        now_ms = _now_ms()
        for work in self._scheduler.drop(lambda work: self._is_given_up(work) or work.is_late(now_ms)):
            reason = cancelled if self._is_given_up(work) else expired
            self._do(self._answers.refuse(work.delivery, reason(work.chunk)))
        return self._scheduler.plan()

    def _is_given_up(self, work: Work) -> bool:
        return work.chunk.id in self._given_up

    def _start(self, plan: Plan[Work], packed: Packed) -> Step:
        # Room that it leaves while batch waits is left on purpose, for online work that may come.
        is_full = not plan.online or self.num_queued("online") > 0 or not self.num_queued("batch")
        return Step(
            works=packed.works,
            pack_ms=packed.pack_ms,
            queue_ms=tuple(work.delivery.age_ms for work in packed.works),
            num_tokens=packed.batch.num_tokens,
            num_sequences=packed.batch.num_sequences,
            fill=packed.batch.num_tokens / self._scheduler.step_tokens,
            tells=self._announcer.rate.start(len(packed.works), time.monotonic(), is_full=is_full),
            span=None if self._spans is None else self._spans.step(packed.works, packed.batch.num_tokens),
            result=self.lane.start(packed.batch),
        )

    # -- reply and settle

    async def _answer(self, step: Step) -> None:
        try:
            result = await step.result
        except Exception as error:  # noqa: BLE001 - whatever a step raises, its chunks must be answered
            if self._spans is not None:
                self._spans.failed_step(step.span, error)
            await self._on_failed_step(step.works, error)
            return
        finally:  # also of a step whose rows nobody waits for any more
            if step.span is not None:
                step.span.end()
        self.counters.run(step, result.run_ms)
        self._announcer.rate.finish(step.num_tokens, tells=step.tells, now_s=time.monotonic())
        first = 0
        for work, queue_ms in zip(step.works, step.queue_ms, strict=True):
            last = first + len(work.runnable)
            usage = Usage(tokens=work.num_tokens, queue_ms=queue_ms, run_ms=result.run_ms, batch_tokens=step.num_tokens)
            await self._answers.result(work, result.rows[first:last], usage)
            first = last

    async def _on_failed_step(self, works: tuple[Work, ...], error: Exception) -> None:
        """Halve a step that raised until the chunk that makes it raise stands alone; if it does twice, it is poison."""
        self.counters.fail(error)
        self._announcer.rate.fail()
        facts = {
            "model": self.spec.name,
            "request_id": [request_id(work.delivery, work.chunk) for work in works],
            "chunk_id": [work.chunk.id for work in works],
            "tenant": sorted({work.tenant for work in works}),
        }
        logger.error("a step of %d chunks failed: %r", len(works), error, extra=facts)
        if len(works) > 1:
            middle = len(works) // 2
            self._scheduler.push_apart(works[:middle])
            self._scheduler.push_apart(works[middle:])
            self._arrived.set()
            return
        (work,) = works
        # What found no memory may find it in another process; by itself it is no poison until that has failed as well.
        if is_out_of_memory(error) or await self.lane.probe() is not None:
            # Blaming the work would empty the queue into the dead letters.
            raise DeviceFailed(f"the device fails on one chunk or even one token, so it is given up: {error!r}")
        if not (work.has_failed or isinstance(error, BatchError)):
            # It may have been a moment of the device's, with which the chunk has nothing to do.
            self._scheduler.push_apart((replace(work, has_failed=True),))
            self._arrived.set()
            return
        code = ErrorCode.INVALID if isinstance(error, BatchError) else ErrorCode.INTERNAL
        poison = Refused(code, f"the engine failed on it: {error!r}", chunk=work.chunk, is_poison=True)
        await self._answers.refuse(work.delivery, poison)

    async def _answer_without_step(self, work: Work) -> None:
        """Every sequence is bad: nothing runs, but each gets its reason."""
        usage = Usage(tokens=0, queue_ms=work.delivery.age_ms, run_ms=0, batch_tokens=0)
        await self._answers.result(work, np.zeros((0, self.spec.dim), np.float32), usage)

    # -- end

    async def _end(self, stepping: "asyncio.Task[None]") -> None:
        """Let the open pulls lapse and finish what is in hand; give back what cannot be finished in time."""
        self._is_ending = True
        self.drain()
        # No longer than a pull stands. Giving back before would only bring it here again.
        for puller in self._pullers:
            await puller.at_rest.wait()
        self._no_more = True
        self._arrived.set()
        done, _ = await asyncio.wait({stepping}, timeout=self._config.drain_timeout_s)
        if not done:
            logger.warning(
                "draining takes longer than %g s: giving back what has not run", self._config.drain_timeout_s
            )
            self._answers.stop_waiting()
            await self._hold.give_back(work.delivery for work in self._scheduler.clear())


def _now_ms() -> float:
    return time.time() * 1000
