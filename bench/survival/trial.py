"""One trial: a fleet at work, a plan of faults, and afterwards the question what of all that was promised did not hold.

It knows the order of things and what is asked at the end. What runs is fleet.py's, what is broken faults.py's.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time

from bulk import checker as rows
from bulk.oracle import Oracle
from bulk.reindex import NotDone
from bulk.verify import verify
from economics.processes import ProcessFailed
from headrace import HeadraceError
from headrace_workers import WorkerConfig
from headrace_workers.spec import served_name
from nats.errors import Error as NatsError

from survival import faults
from survival.breakage import bring_back
from survival.breaking import Breaking, Done
from survival.callers import stop_all
from survival.checker import Allowed, Freeze, check, check_ledger, gaps
from survival.cluster import NAMES, Kind, cluster
from survival.digests import expected
from survival.errand import errand
from survival.fleet import Fleet, Size, fleet
from survival.history import History, read
from survival.ledger import Ledger
from survival.passes import Passes
from survival.possible import possible
from survival.queues import Left, left
from survival.stranger import Plan as StrangerPlan
from survival.wiretap import Wiretap, tapped

_NODE_DISK_MB = 512
# Until all processes are there, and the first fault may begin: credentials are written before any of them starts.
_START_S = 12.0
_READY_S = 60.0
# After the last fault is mended: servers choose leaders, and each message that somebody dropped comes back.
_CALM_S = 8.0
_JOB_S = 150.0
_LEFT_S = 60.0
_GRACE_S = 3.0
# What a process says only if something is wrong with it, whatever was done to it.
_BUGS = re.compile(
    r"Traceback|This is a bug|never retrieved|was destroyed"
    # A stranger may name other subjects for what he is answered.
    r"|nats-server does not let .*? (publish|subscribe) to (hr\.|\$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one.

    Attributes:
        seed: Of its faults.
        violations: What did not hold, each in a sentence.
        faults: That were done, by kind.
        calls: That ended, by how.
        kept: Messages that the broker keeps in queues, though they are acked.
        judged: Chunks of which the wiretap heard both the chunk and a reply.
        rows: In the sink.
        messages: That workers settled, and of which they left a ledger.
        gap_s: The longest time without any answer while somebody asked.
        job_s: That the job took.
        kind: How the servers ran.
        servers: How many they were.
    """

    seed: int
    kind: Kind = "namespaces"
    servers: int = len(NAMES)
    violations: tuple[str, ...] = ()
    faults: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    judged: int = 0
    rows: int = 0
    messages: int = 0
    gap_s: float = 0.0
    job_s: float = 0.0


async def run(
    seed: int,
    *,
    model: str,
    seconds: float,
    size: Size,
    work: Path,
    say: Callable[[str], None],
    kinds: Sequence[faults.Kind] | None = None,
) -> Trial:
    """Run one.

    Args:
        seed: Of all that is random in it, but for the moments in which processes do what they do.
        model: As the engine takes it; only its checkpoint is read.
        seconds: For which faults begin.
        size: Of the fleet, and on what its servers run.
        work: An empty folder for what it writes.
        say: Told of each fault.
        kinds: Of faults; None is all that can be done here.

    Raises:
        NotPermitted: This machine does not run servers of that kind.
        Exception: The trial itself did not work, such as a process that did not start, or a fault not to be done.
    """
    scope = size.scope(served_name(WorkerConfig(), model))
    passes = Passes(size.places, scope, work / "access")
    with (
        cluster(
            work / "nodes",
            size=size.servers,
            kind=size.kind,
            extra_places=size.places,
            disk_mb=_NODE_DISK_MB,
            users=passes.settings,
            say=say,
        ) as servers,
        fleet(servers, model, size, seed, work, passes) as made,
    ):
        await servers.ready(_READY_S)
        plan = faults.plan(seed, seconds, tuple(kinds or possible(made)))
        passes.follow(plan, time() + _START_S)
        return await _Trial(made, seed, model, work, say).run(plan)


class _Trial:
    """One that runs."""

    def __init__(self, made: Fleet, seed: int, model: str, work: Path, say: Callable[[str], None]) -> None:
        self._fleet = made
        self._seed = seed
        self._model = model
        self._work = work
        self._breaking = Breaking(made, say)
        self._violations: list[str] = []
        self._job_s = 0.0
        self._kept = 0

    async def run(self, plan: Sequence[faults.Fault]) -> Trial:
        made = self._fleet
        for number in range(len(made.ailments)):
            await self._start_worker(number)
        for caller in made.callers:
            await asyncio.to_thread(caller.start)
        async with tapped(made.cluster.url) as tap:
            with self._stranger():
                job = asyncio.create_task(self._job())
                await self._break(plan)
                await asyncio.to_thread(stop_all, made.callers)
                await self._done(job)
            await self._no_work_left()
            verified = await verify(made.job, made.cluster.url)
            await asyncio.to_thread(made.crew.stop_all)
        return await asyncio.to_thread(self._judge, tap, verified)

    async def _start_worker(self, number: int) -> None:
        """Start it; where credentials have run out before all were there, as on a busy machine, until it is let in."""
        crew = self._fleet.crew
        try:
            await asyncio.to_thread(crew.start, number)
        except ProcessFailed:
            async with asyncio.timeout(_READY_S):
                await bring_back(crew, number)

    @contextmanager
    def _stranger(self) -> Iterator[None]:
        made = self._fleet
        plan = StrangerPlan(
            url=made.cluster.url, model=made.model, report=str(self._work / "stranger.json"), seed=self._seed
        )
        with (self._work / "stranger.log").open("ab") as log, errand("survival.stranger", plan, log=log):
            yield

    async def _break(self, plan: Sequence[faults.Fault]) -> None:
        keeping = asyncio.create_task(self._breaking.keep())
        try:
            await self._breaking.run(plan)
            await self._fleet.cluster.ready(_READY_S)
            await asyncio.sleep(_CALM_S)
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
        if not keeping.cancelled() and (error := keeping.exception()) is not None:
            raise error

    async def _job(self) -> None:
        begun_s = monotonic()
        try:
            await asyncio.gather(*(each.run() for each in self._fleet.producers))
        except NotDone as error:
            self._violations.append(f"the job was never done: {error}")
        self._job_s = monotonic() - begun_s

    async def _done(self, job: "asyncio.Task[None]") -> None:
        """Wait for the job, now that nothing is broken any more."""
        try:
            async with asyncio.timeout(_JOB_S):
                await job
        except TimeoutError:
            self._violations.append(f"the job was not done {_JOB_S:g} s after all was mended")
            await asyncio.to_thread(self._write_down_servers)

    def _write_down_servers(self) -> None:
        """What each says of its NATS streams and consumers: why work does not end is to be seen while it does not."""
        for node in self._fleet.cluster.nodes.values():
            with suppress(OSError):
                said = node.ask("/jsz?streams=true&consumers=true&raft=true")
                (self._work / f"{node.name}.json").write_text(json.dumps(said, indent=1))

    async def _no_work_left(self) -> None:
        """What callers gave up, and copies that nobody needed, are dropped when their time is over."""
        found: Left | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEFT_S):
                while found is None or found.to_come:
                    await asyncio.sleep(0.5)  # the broker tells nobody when a queue is empty
                    with suppress(NatsError, HeadraceError):  # a leader is being chosen
                        found = await left(self._fleet.cluster.url, self._fleet.model)
        if found is None or found.to_come:
            self._violations.append(f"queues that nobody fills any more are not empty: {found}")
        else:
            self._kept = found.kept

    def _judge(self, tap: Wiretap, verified: int) -> Trial:
        made, done = self._fleet, self._breaking.done
        lives = [life for caller in made.callers for life in caller.lives]
        histories = [read(life.history) for life in lives if life.history.exists()]
        spoilt = {"non_finite"} if any(each.kind == "device gives NaN" for each in done) else set[str]()
        oracle = Oracle(self._model)
        killed = {life.history.stem for life in lives if life.was_killed}
        allowed = Allowed(
            grace_s=_GRACE_S,
            freezes=_freezes(done, histories),
            killed=killed,
            errors=spoilt,
            is_skewed=any("clock" in each.kind for each in done),
        )
        ledgers = [Ledger.read(file) for file in sorted(made.ledgers.glob("*.json"))]
        checked = rows.check(made.documents, made.sink.folder, made.job, oracle.vectors, excused=spoilt)
        self._violations += [
            *check(histories, expected(oracle, made.texts), allowed),
            *tap.violations(),
            *(found for ledger in ledgers for found in check_ledger(ledger)),
            *(f"rows of the job: {example}" for example in checked.examples),
            *([] if checked.is_whole else [f"the sink is not whole: {checked}"]),
            *([] if verified == 0 else [f"headrace job verify ended with {verified}"]),
            *self._bugs(),
        ]
        return Trial(
            seed=self._seed,
            kind=made.cluster.kind,
            servers=len(made.cluster.nodes),
            violations=tuple(self._violations),
            faults=Counter(each.kind for each in done),
            calls=Counter(end.end for history in histories for end in history.ended),
            kept=self._kept,
            judged=tap.num_judged,
            rows=checked.rows,
            messages=sum(ledger.settled for ledger in ledgers),
            gap_s=found[0].seconds if (found := gaps(histories)) else 0.0,
            job_s=self._job_s,
        )

    def _bugs(self) -> list[str]:
        return [
            f"{file.name}: {line}"
            for file in sorted(self._work.glob("*.log"))
            for line in file.read_text("utf-8", errors="replace").splitlines()
            if _BUGS.search(line)
        ]


def _freezes(done: Sequence[Done], histories: Sequence[History]) -> list[Freeze]:
    return [
        Freeze(began_s=each.began_s, ended_s=each.ended_s, caller=history.caller)
        for each in done
        if each.kind == "caller frozen"
        for history in histories
        if history.caller.startswith(f"{each.what}-")
    ]
