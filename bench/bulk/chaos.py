"""One job beside faults, run after run: whatever goes wrong, each row is in the sink once, with its own vector.

It knows how each kind of fault is done and mended, and what must hold in the end. When and how long is faults.py's.
"""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from economics.processes import ProcessFailed
from headrace_contracts import subjects
from headrace_contracts.topology import results_stream
from nats.errors import Error as NatsError
from online.finding import Figure, Finding, Verdict

from bulk import checker, faults
from bulk.broker import Broker
from bulk.checker import Checked
from bulk.corpus import Corpus
from bulk.crew import Crew
from bulk.disk import Disk, disk
from bulk.faults import Fault, Kind
from bulk.ground import Ground
from bulk.oracle import Oracle
from bulk.reindex import NotDone, Reindex, command
from bulk.verify import verify

_PRODUCERS, _WORKERS = 2, 2
_DISK_MB = 256
# Short, so that what a killed worker held comes back while the run goes on.
_ACK_WAIT_S = 5.0
# Slow enough for the faults to find work: an undisturbed run takes longer than all of them.
_ROWS_PER_S, _TOKENS_OF_A_ROW = 1200, 25
# Small, so that a shard has a dozen, some of them done and some under way at any moment.
_WINDOWS = ("--window-rows", "500")
_FULL_BYTES = 1  # less than any message takes
_TRIES = 60
_LOOK_EVERY_S, _LOOK_S = 0.002, 3.0
_RUN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One of them.

    Attributes:
        seed: Of its faults.
        checked: What the sink came to; None where the job was never done.
        verified: What `headrace job verify` said: its exit code.
        done: Faults that were done before the job was.
        exits: Of producers.
        seconds: It took.
        broke: Why it was not finished; empty if it was.
    """

    seed: int
    checked: Checked | None
    verified: int | None
    done: Counter[Kind]
    exits: Counter[int]
    seconds: float
    broke: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost and nothing doubled, and `verify` says so."""
        return self.checked is not None and self.checked.is_whole and self.verified == 0 and not self.broke


async def measure(ground: Ground) -> Finding:
    """Run one seed after the other."""
    runs = []
    for seed in range(ground.first_seed, ground.first_seed + ground.amount.seeds):
        run = await _one(ground, seed)
        runs.append(run)
        ground.say(f"chaos: seed {seed}: {_in_words(run)}")
    return finding(runs)


async def _one(ground: Ground, seed: int) -> Run:
    name = _name(seed)
    corpus = Corpus(documents=ground.amount.chaos, seed=seed, shards=5, bad=0.001)
    documents = ground.documents(corpus, name)
    with ground.broker(name) as broker:
        tokens_per_s = str(_ROWS_PER_S * _TOKENS_OF_A_ROW / _WORKERS)
        options = ("--tokens-per-s", tokens_per_s, "--step-tokens", "2048", "--batch-ack-wait", str(_ACK_WAIT_S))
        with ground.stand_ins(name, broker.url, *options, size=_WORKERS) as crew:
            producers: list[Reindex] = []
            pids = lambda: [pid for each in producers if (pid := each.pid) is not None]  # noqa: E731 - of a line
            with disk(ground.work / name, _DISK_MB, pids) as small:
                own = (*_WINDOWS, *ground.options)
                what = command(documents, small.folder, url=broker.url, model=ground.name, job=name, options=own)
                logs = [ground.work / name / f"producer-{number}.log" for number in range(_PRODUCERS)]
                producers += [Reindex(*what, max_tries=_TRIES, log=log) for log in logs]
                run = await _Chaos(ground, seed, broker, crew, small, producers).run(documents)
    if run.is_whole:
        rmtree(ground.work / name)
    return run


class _Chaos:
    """One run: all that can break."""

    def __init__(
        self, ground: Ground, seed: int, broker: Broker, crew: Crew, small: Disk, producers: list[Reindex]
    ) -> None:
        self._ground = ground
        self._seed = seed
        self._broker = broker
        self._crew = crew
        self._disk = small
        self._producers = producers
        self._done: Counter[Kind] = Counter()
        # Faults go on beside each other, those of one thing after each other.
        self._of_server, self._of_workers, self._of_disk = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()

    async def run(self, documents: Path) -> Run:
        """Break things until the job is done, then look."""
        loop = asyncio.get_running_loop()
        begun_s, broke, checked, verified = loop.time(), "", None, None
        try:
            async with asyncio.timeout(_RUN_S), self._breaking():
                await asyncio.gather(*(each.run() for each in self._producers))
        except TimeoutError:
            broke = f"it was not done after {_RUN_S:g} s"
        except NotDone as error:
            broke = str(error)
        seconds = loop.time() - begun_s
        if not broke:
            job, oracle = _name(self._seed), Oracle(self._ground.model)
            checked = await asyncio.to_thread(checker.check, documents, self._disk.folder, job, oracle.vectors)
            verified = await verify(job, self._broker.url)
        exits = Counter(code for each in self._producers for code in each.exits)
        return Run(
            seed=self._seed,
            checked=checked,
            verified=verified,
            done=self._done,
            exits=exits,
            seconds=seconds,
            broke=broke,
        )

    @asynccontextmanager
    async def _breaking(self) -> AsyncIterator[None]:
        """Faults begin, each when it is due, until the context ends; then all is mended."""
        breaking = asyncio.create_task(self._break())
        try:
            yield
        finally:
            breaking.cancel()
            await asyncio.wait([breaking])
            if not breaking.cancelled() and (error := breaking.exception()) is not None:
                raise error

    async def _break(self) -> None:
        await self._begun()
        async with asyncio.TaskGroup() as tasks:
            for fault in faults.plan(self._seed, self._ground.amount.faults):
                await asyncio.sleep(fault.after_s)
                tasks.create_task(self._one(fault))

    async def _begun(self) -> None:
        """Wait for the first row, for before it there is little to break."""
        while not any(each.rows_done for each in self._producers):  # noqa: ASYNC110 - of processes, which have no event
            await asyncio.sleep(0.05)

    async def _one(self, fault: Fault) -> None:
        match fault.kind.split():
            case ["producer" | "writer", *_]:
                await self._of_producer(fault)
            case ["worker", *_]:
                async with self._of_workers:
                    await _mended(self._of_worker(fault))
            case ["server", *_]:
                async with self._of_server:
                    await _mended(self._of_broker(fault))
            case ["disk", "full"]:
                async with self._of_disk:
                    await _mended(self._full_disk(fault))
            case _:
                async with self._of_server:
                    await _mended(self._full_stream(fault))
        self._done[fault.kind] += 1

    async def _of_producer(self, fault: Fault) -> None:
        producer = self._producers[fault.which % len(self._producers)]
        if fault.kind == "writer killed":
            await self._writing()
        if fault.kind != "producer frozen":
            producer.signal(signal.SIGKILL)
            return
        pid = producer.pid
        producer.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            if producer.pid == pid:
                producer.signal(signal.SIGCONT)

    async def _writing(self) -> None:
        """Wait until something new is in the sink's folder, such as a part that is not whole yet."""
        before = _names(self._disk.folder)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                while _names(self._disk.folder) <= before:  # noqa: ASYNC110 - a file system has no event of asyncio's
                    await asyncio.sleep(_LOOK_EVERY_S)

    async def _of_worker(self, fault: Fault) -> None:
        if fault.kind == "worker frozen":
            self._crew.signal(fault.which, signal.SIGSTOP)
            await _lasting(fault)
            self._crew.signal(fault.which, signal.SIGCONT)
            return
        await asyncio.to_thread(self._crew.kill, fault.which)
        await _lasting(fault)
        while True:
            try:
                await asyncio.to_thread(self._crew.start, fault.which)
            except ProcessFailed:
                await asyncio.sleep(0.1)  # nats-server is away, too: whoever runs workers starts them again
            else:
                return

    async def _of_broker(self, fault: Fault) -> None:
        if fault.kind == "server frozen":
            self._broker.signal(signal.SIGSTOP)
            await _lasting(fault)
            self._broker.signal(signal.SIGCONT)
            return
        await asyncio.to_thread(self._broker.kill if fault.kind == "server killed" else self._broker.stop)
        await _lasting(fault)
        await asyncio.to_thread(self._broker.start)

    async def _full_disk(self, fault: Fault) -> None:
        await asyncio.to_thread(self._disk.fill)
        await _lasting(fault)
        self._disk.free()

    async def _full_stream(self, fault: Fault) -> None:
        name = results_stream().name
        stream = subjects.batch_stream(self._ground.name) if fault.kind == "queue full" else name
        before = await self._limit(stream, _FULL_BYTES)
        await _lasting(fault)
        await self._limit(stream, before)

    async def _limit(self, stream: str, max_bytes: int) -> int:
        while True:
            try:
                return await self._broker.limit(stream, max_bytes)
            except (NatsError, OSError):
                await asyncio.sleep(0.1)  # it has just been started


async def _mended(breaking: Coroutine[Any, Any, None]) -> None:
    """Let a fault last until it is mended, though the job is done and this is cancelled."""
    task = asyncio.create_task(breaking)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _lasting(fault: Fault) -> None:
    await asyncio.sleep(fault.lasts_s)


def _name(seed: int) -> str:
    return f"chaos-{seed}"


def _names(folder: Path) -> frozenset[str]:
    return frozenset(file.name for file in folder.iterdir())


def _in_words(run: Run) -> str:
    if run.broke:
        return f"broken: {run.broke}"
    found = f"exits {dict(run.exits)}, {run.done.total()} faults, {run.seconds:.0f} s"
    if run.is_whole:
        return f"whole; {found}"
    examples = [] if run.checked is None else list(run.checked.examples)
    return f"NOT whole: {json.dumps(examples)}, verify {run.verified}; {found}"


def finding(runs: list[Run]) -> Finding:
    """What they come to."""
    checked = [run.checked for run in runs if run.checked is not None]
    done = sum((run.done for run in runs), Counter[Kind]())
    exits = sum((run.exits for run in runs), Counter[int]())
    return Finding(
        part="chaos",
        what=f"{_PRODUCERS} processes on a job, {_WORKERS} workers, and faults at random moments: {len(runs)} runs",
        figures=[
            Figure(what="rows", value=sum(each.expected + each.bad for each in checked), unit="rows"),
            *(Figure(what=kind, value=done[kind], unit="times") for kind in faults.KINDS),
            *(Figure(what=f"exit code {code}", value=times, unit="processes") for code, times in sorted(exits.items())),
            Figure(what="a run, the longest", value=max(run.seconds for run in runs), unit="s"),
        ],
        verdicts=[
            *(
                Verdict(
                    what=f"rows {kind}", found=sum(getattr(each, kind) for each in checked), limit=0, sense="at most"
                )
                for kind in ("missing", "doubled", "strange", "wrong", "unreported", "overreported")
            ),
            Verdict(
                what="runs that `verify` finds whole", found=_share(runs, verified=True), limit=1, sense="at least"
            ),
            Verdict(what="runs that are whole", found=_share(runs, verified=False), limit=1, sense="at least"),
        ],
        notes=[f"seed {run.seed}: {_in_words(run)}" for run in runs if not run.is_whole],
    )


def _share(runs: list[Run], *, verified: bool) -> float:
    holds = [run.verified == 0 if verified else run.is_whole for run in runs]
    return sum(holds) / len(holds)
