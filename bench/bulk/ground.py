"""What all parts stand on: the model, its words, the cores, the amount of work, and where files go.

It knows how a fleet for a part is put together. It does not know what is measured.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from economics import processes
from headrace_engine import Checkpoint
from headrace_engine.resolve import resolve
from headrace_workers import WorkerConfig
from headrace_workers.spec import served_name
from online.cores import Cores

from bulk.broker import Broker
from bulk.corpus import Corpus
from bulk.crew import Crew


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much work there is.

    Attributes:
        million: Documents of the long run.
        real: Documents for the real model.
        throughput: Documents of the run in which only the producer is of interest.
        chaos: Documents of each run with faults.
        seeds: Runs with faults.
        faults: Of each.
    """

    million: int = 1_000_000
    real: int = 20_000
    throughput: int = 200_000
    chaos: int = 30_000
    seeds: int = 20
    faults: int = 16

    @classmethod
    def quick(cls) -> "Amount":
        """So little that it only shows that all works."""
        return cls(million=5000, real=300, throughput=2000, chaos=8000, seeds=1, faults=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a part is given.

    Attributes:
        model: As the engine takes it.
        work: Folder for all that is written.
        cores: Who computes where.
        amount: Of work.
        first_seed: Of the runs with faults, and of the documents.
        options: More flags of every `headrace reindex`.
        say: Told what happens.
        is_quick: Whether this is only to show that all works.
    """

    model: str
    work: Path
    cores: Cores
    amount: Amount
    first_seed: int
    options: tuple[str, ...]
    say: Callable[[str], None]
    is_quick: bool = False

    @property
    def name(self) -> str:
        """Of the model, as it is served."""
        return served_name(WorkerConfig(), self.model)

    def checkpoint(self) -> Checkpoint:
        """Of the model."""
        return Checkpoint.read(resolve(self.model), self.model)

    def documents(self, what: Corpus, name: str) -> Path:
        """Write a corpus; gives its folder."""
        folder = self.work / name / "documents"
        self.say(f"{name}: writing {what.documents:,} documents")
        what.write(folder, self.checkpoint().transformer / "tokenizer.json")
        return folder

    @contextmanager
    def broker(self, name: str) -> Iterator[Broker]:
        """A nats-server for a part, with a store of its own that is dropped with it."""
        store = self.work / name / "store"
        broker = Broker(store)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
            rmtree(store, ignore_errors=True)

    @contextmanager
    def stand_ins(self, name: str, url: str, *options: str, size: int = 1) -> Iterator[Crew]:
        """Workers that answer with hashes; what they say goes to a file."""
        with (self.work / name / "workers.log").open("wb") as log:
            crew = Crew(size, lambda _: processes.worker("bulk.stand_in", self.model, url, *options, log=log))
            try:
                crew.start_all()
                yield crew
            finally:
                crew.stop_all()
