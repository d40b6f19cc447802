"""All that runs in a trial: servers, workers, callers, and two processes of one bulk job, each in a place of its own.

It knows how it is put together. It does not know what is done to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bulk.corpus import Corpus
from bulk.crew import Crew, Process
from bulk.disk import Disk, disk
from bulk.reindex import Reindex, command
from economics import processes
from headrace_engine import Checkpoint
from headrace_engine.resolve import resolve
from headrace_workers import WorkerConfig
from headrace_workers.spec import served_name

from survival.caller import Plan
from survival.callers import Caller
from survival.clock import Clock, NoLibrary
from survival.cluster import Cluster
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
    """Of a trial.

    Attributes:
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

    workers: int = 2
    callers: int = 2
    calls_per_s: float = 12
    producers: int = 2
    rows: int = 40_000
    rows_per_s: float | None = 1000
    shards: int | None = None
    queries: Queries | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Names of places for all of them."""
        kinds = {"worker": self.workers, "caller": self.callers, "producer": self.producers}
        return tuple(f"{kind}-{number}" for kind, num in kinds.items() for number in range(num))


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

    @property
    def texts(self) -> list[str]:
        """That callers choose from."""
        return texts(self.seed, _NUM_TEXTS)


@contextmanager
def fleet(cluster: Cluster, model: str, size: Size, seed: int, work: Path) -> Iterator[Fleet]:
    """Put a fleet together whose processes are all away, and end those that are there at the end.

    Args:
        cluster: Servers, with places for all of it.
        model: As the engine takes it; only its checkpoint is read.
        size: How much of it.
        seed: Of the corpus and of what callers ask.
        work: Folder for what it writes.
    """
    name, job = served_name(WorkerConfig(), model), f"trial-{seed}"
    for folder in ("ledgers", "histories", "sink"):
        (work / folder).mkdir()
    documents = work / "documents"
    corpus = Corpus(documents=size.rows, seed=seed, shards=5, bad=0.001 if size.rows else 0)
    corpus.write(documents, Checkpoint.read(resolve(model), model).transformer / "tokenizer.json")
    with ExitStack() as stack:
        producers: list[Reindex] = []
        pids = lambda: [pid for each in producers if (pid := each.pid) is not None]  # noqa: E731 - of a line
        sink = stack.enter_context(disk(work / "sink", _SINK_MB, pids))
        what = command(
            documents,
            sink.folder,
            url=cluster.url,
            model=name,
            job=job,
            options=("--window-rows", str(_WINDOW_ROWS)),
        )
        producers += [
            Reindex(
                *what,
                max_tries=_TRIES,
                log=work / f"producer-{number}.log",
                prefix=cluster.places[f"producer-{number}"].prefix,
            )
            for number in range(size.producers)
        ]
        clocks = _clocks(size, work)
        made = Fleet(
            cluster=cluster,
            crew=_crew(stack, cluster, model, size, work, clocks),
            clocks=clocks,
            ailments=[work / f"worker-{number}.ailment" for number in range(size.workers)],
            ledgers=work / "ledgers",
            producers=producers,
            callers=[
                _caller(cluster, name, size, seed, work, number, clocks.get(f"caller-{number}"))
                for number in range(size.callers)
            ],
            sink=sink,
            documents=documents,
            model=name,
            job=job,
            seed=seed,
        )
        for caller in made.callers:
            stack.callback(caller.kill)
        yield made


def _clocks(size: Size, work: Path) -> dict[str, Clock]:
    try:
        return {name: Clock(work / f"{name}.clock") for name in size.places if not name.startswith("producer")}
    except NoLibrary:
        return {}


def _environment(clock: Clock | None) -> Mapping[str, str]:
    return {} if clock is None else clock.environment


def _crew(stack: ExitStack, cluster: Cluster, model: str, size: Size, work: Path, clocks: Mapping[str, Clock]) -> Crew:
    log = stack.enter_context((work / "workers.log").open("ab"))
    lives = count()

    def worker(number: int) -> AbstractContextManager[Process]:
        nodes = list(cluster.nodes)[: size.shards]
        options: dict[str, object] = {
            "--worker": f"worker-{number}",
            "--shards": len(nodes),
            "--placement": ",".join(nodes),
            "--queues": _QUEUES,
            "--replicas": len(cluster.nodes),
            "--online-ack-wait": _ONLINE_ACK_WAIT_S,
            "--batch-ack-wait": _BATCH_ACK_WAIT_S,
            "--max-step-s": _MAX_STEP_S,
            "--ailments": work / f"worker-{number}.ailment",
            "--ledger": work / "ledgers" / f"worker-{number}-{next(lives)}.json",
        }
        if size.rows_per_s is not None:
            options["--tokens-per-s"] = size.rows_per_s * _TOKENS_OF_A_ROW / size.workers
        return processes.worker(
            "survival.worker",
            model,
            cluster.url,
            *(str(word) for option in options.items() for word in option),
            log=log,
            environment=_environment(clocks.get(f"worker-{number}")),
            prefix=cluster.places[f"worker-{number}"].prefix,
        )

    crew = Crew(size.workers, worker)
    stack.callback(crew.stop_all)
    return crew


def _caller(
    cluster: Cluster, model: str, size: Size, seed: int, work: Path, number: int, clock: Clock | None
) -> Caller:
    nodes = list(cluster.nodes.values())

    def plan(life: int) -> Plan:
        name = f"caller-{number}-{life}"
        return Plan(
            name=name,
            url=cluster.url if size.queries is None else nodes[number % len(nodes)].url,
            model=model,
            history=str(work / "histories" / f"{name}.jsonl"),
            texts=texts(seed, _NUM_TEXTS),
            # Another one for each life, so that nobody asks the same again.
            seed=seed * 1000 + number * 100 + life,
            rate=size.calls_per_s,
            hedged=size.queries is None and number % 2 == 1,
            queries=size.queries,
        )

    log = work / f"caller-{number}.log"
    return Caller(cluster.places[f"caller-{number}"], plan, log, _environment(clock))
