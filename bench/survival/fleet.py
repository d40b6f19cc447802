"""All that runs in a trial: servers, workers, callers, and two processes of one bulk job, each in a place of its own.

It knows how it is put together. It does not know what is done to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

from bulk.corpus import Corpus
from bulk.crew import Crew, Process
from bulk.disk import Disk, disk
from bulk.reindex import Reindex, command
from economics import processes
from headrace_contracts.access import Scope
from headrace_engine import Checkpoint
from headrace_engine.resolve import resolve
from headrace_workers import WorkerConfig
from headrace_workers.spec import served_name

from survival.caller import Plan
from survival.callers import Caller
from survival.clock import Clock, NoLibrary
from survival.cluster import Cluster, Count, Kind
from survival.passes import Passes
from survival.texts import texts
from survival.wish import Queries

# Short, so that what a killed worker held comes back while the trial goes on.
_ONLINE_ACK_WAIT_S, _BATCH_ACK_WAIT_S = 3, 5
_MAX_STEP_S = 6
_QUEUES = 2
# Small, so that a shard has a dozen, some of them done and some under way at any moment.
_WINDOW_ROWS = 500
_TOKENS_OF_A_ROW = 25
_TRIES = 200
_SINK_MB = 256
_NUM_TEXTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of a trial, and on what.

    Attributes:
        servers: How many.
        kind: How they run; None is the best way that this machine has.
        workers: How many.
        callers: How many.
        calls_per_s: Of each caller.
        producers: Processes of the job.
        rows: Of its corpus.
        rows_per_s: That all workers together do at most: undisturbed, the job takes rows / rows_per_s; None is as many
            as this machine can.
        shards: Of online work, each on a server of its own; None is one for each server.
        queries: What callers ask; None is calls of all kinds, half of the callers hedging. Who asks queries connects
            to one server at first, the next caller to the next one: so none is lost whose clients are not looked at.
    """

    servers: Count = 3
    kind: Kind | None = None
    workers: int = 2
    callers: int = 2
    calls_per_s: float = 12
    producers: int = 2
    rows: int = 15_000
    rows_per_s: float | None = 1000
    shards: int | None = None
    queries: Queries | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Names of places for all of them."""
        kinds = {"worker": self.workers, "caller": self.callers, "producer": self.producers}
        return tuple(f"{kind}-{number}" for kind, num in kinds.items() for number in range(num))

    def scope(self, model: str) -> Scope:
        """What its users are for: a fleet of a model, which makes what is not there."""
        return Scope(models=(model,), shards=self.shards or self.servers, queues=_QUEUES, may_provision=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What runs.

    Attributes:
        cluster: Servers.
        crew: Workers.
        ailments: A file for each worker that makes it ill.
        clocks: Wall clocks of workers and callers, by the names of their places; none where there is no libfaketime.
        ledgers: Folder of what each life of a worker has left.
        producers: Of the job.
        callers: Of online work.
        sink: Of the job, on a disk that can be full.
        documents: Folder of the corpus.
        model: Its served name.
        job: Name of the job.
        seed: Of what is asked.
        passes: Of all that connect; None where nobody is asked who he is.
    """

    cluster: Cluster
    crew: Crew
    ailments: Sequence[Path]
    clocks: Mapping[str, Clock]
    ledgers: Path
    producers: Sequence[Reindex]
    callers: Sequence[Caller]
    sink: Disk
    documents: Path
    model: str
    job: str
    seed: int
    passes: Passes | None

    @property
    def texts(self) -> list[str]:
        """That callers choose from."""
        return texts(self.seed, _NUM_TEXTS)


@contextmanager
def fleet(
    cluster: Cluster, model: str, size: Size, seed: int, work: Path, passes: Passes | None = None
) -> Iterator[Fleet]:
    """Put a fleet together whose processes are all away, and end those that are there at the end.

    Args:
        cluster: Servers, with places for all of it.
        model: As the engine takes it; only its checkpoint is read.
        size: How much of it.
        seed: Of the corpus and of what callers ask.
        work: Folder for what it writes.
        passes: Of all places, if the servers ask for them.
    """
    for folder in ("ledgers", "histories", "sink"):
        (work / folder).mkdir()
    documents, job = work / "documents", f"trial-{seed}"
    corpus = Corpus(documents=size.rows, seed=seed, shards=5, bad=0.001 if size.rows else 0)
    corpus.write(documents, Checkpoint.read(resolve(model), model).transformer / "tokenizer.json")
    making = _Making(cluster=cluster, model=model, size=size, seed=seed, work=work, passes=passes)
    with ExitStack() as stack:
        producers: list[Reindex] = []
        pids = lambda: [pid for each in producers if (pid := each.pid) is not None]  # noqa: E731 - of a line
        sink = stack.enter_context(disk(work / "sink", _SINK_MB, pids))
        producers += [making.producer(number, documents, sink.folder, job) for number in range(size.producers)]
        crew = making.crew(stack.enter_context((work / "workers.log").open("ab")))
        stack.callback(crew.stop_all)
        made = Fleet(
            cluster=cluster,
            crew=crew,
            clocks=making.clocks,
            ailments=[making.ailment(number) for number in range(size.workers)],
            ledgers=work / "ledgers",
            producers=producers,
            callers=[making.caller(number) for number in range(size.callers)],
            sink=sink,
            documents=documents,
            model=making.name,
            job=job,
            seed=seed,
            passes=passes,
        )
        for caller in made.callers:
            stack.callback(caller.kill)
        yield made


class _Making:
    """Of the processes of one fleet."""

    def __init__(
        self, *, cluster: Cluster, model: str, size: Size, seed: int, work: Path, passes: Passes | None
    ) -> None:
        self.name = served_name(WorkerConfig(), model)
        self.clocks = _clocks(size, work)
        self._cluster = cluster
        self._model = model
        self._size = size
        self._seed = seed
        self._work = work
        self._passes = passes

    def producer(self, number: int, documents: Path, sink: Path, job: str) -> Reindex:
        place = f"producer-{number}"
        options = ("--window-rows", str(_WINDOW_ROWS))
        access = self._access(place)
        return Reindex(
            *command(documents, sink, url=self._cluster.url, model=self.name, job=job, options=options),
            max_tries=_TRIES,
            log=self._work / f"{place}.log",
            environment={} if access is None else {"HEADRACE_ACCESS": access},
            prefix=self._cluster.places[place].prefix,
        )

    def ailment(self, number: int) -> Path:
        return self._work / f"worker-{number}.ailment"

    def crew(self, log: IO[bytes]) -> Crew:
        lives = count()

        def worker(number: int) -> AbstractContextManager[Process]:
            place = f"worker-{number}"
            return processes.worker(
                "survival.worker",
                self._model,
                self._cluster.url,
                *self._worker(number, self._work / "ledgers" / f"{place}-{next(lives)}.json"),
                log=log,
                environment=self._environment(place),
                prefix=self._cluster.places[place].prefix,
            )

        return Crew(self._size.workers, worker)

    def _worker(self, number: int, ledger: Path) -> Iterator[str]:
        """Flags of one."""
        size, nodes = self._size, list(self._cluster.nodes)[: self._size.shards]
        rate = None if size.rows_per_s is None else size.rows_per_s * _TOKENS_OF_A_ROW / size.workers
        options = {
            "--worker": f"worker-{number}",
            "--access": self._access(f"worker-{number}"),
            "--shards": len(nodes),
            "--placement": ",".join(nodes),
            "--queues": _QUEUES,
            "--replicas": len(self._cluster.nodes),
            "--tokens-per-s": rate,
            "--online-ack-wait": _ONLINE_ACK_WAIT_S,
            "--batch-ack-wait": _BATCH_ACK_WAIT_S,
            "--max-step-s": _MAX_STEP_S,
            "--ailments": self.ailment(number),
            "--ledger": ledger,
        }
        for name, value in options.items():
            if value is not None:
                yield from (name, str(value))

    def caller(self, number: int) -> Caller:
        size, cluster, place = self._size, self._cluster, f"caller-{number}"
        nodes = list(cluster.nodes.values())

        def plan(life: int) -> Plan:
            name = f"{place}-{life}"
            return Plan(
                name=name,
                url=cluster.url if size.queries is None else nodes[number % len(nodes)].url,
                model=self.name,
                history=str(self._work / "histories" / f"{name}.jsonl"),
                texts=texts(self._seed, _NUM_TEXTS),
                # Another one for each life, so that nobody asks the same again.
                seed=self._seed * 1000 + number * 100 + life,
                rate=size.calls_per_s,
                hedged=size.queries is None and number % 2 == 1,
                queries=size.queries,
                access=self._access(place),
            )

        return Caller(cluster.places[place], plan, self._work / f"{place}.log", self._environment(place))

    def _environment(self, place: str) -> Mapping[str, str]:
        return self.clocks[place].environment if place in self.clocks else {}

    def _access(self, place: str) -> str | None:
        return None if self._passes is None else str(self._passes.by_name[place].file)


def _clocks(size: Size, work: Path) -> dict[str, Clock]:
    try:
        return {name: Clock(work / f"{name}.clock") for name in size.places if not name.startswith("producer")}
    except NoLibrary:
        return {}
