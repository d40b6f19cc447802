"""Contenders, plans and grounds for tests of the suites: small, and without a model."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import child
from child import Child
from contenders import Entrant
from models import Models
from suites.field import Ground
from suites.judge import Rows
from suites.plan import Job, Plan, inputs
from suites.scale import Scale

from .fake_adapter import scores, vectors

SCRIPT = Path(__file__).parent / "fake_adapter.py"
TEXTS = ["a mill", "by the river", "three geese", "where does the water go?"]
SCALE = Scale(
    warm_s=0.01,
    turn_s=0.02,
    rounds=3,
    long_rounds=2,
    documents=(2,),
    batch=2,
    clients=(1, 3),
    calibrate_s=1,
    sample_s=0.1,
    both_dtypes=False,
)


def entrant(name: str, *, python: Path = Path(sys.executable)) -> Entrant:
    """A contender that does what its name says; see fake_adapter.py."""
    return Entrant(name=name, label=name.capitalize(), script=SCRIPT, python=python, dtype="float32")


class FakeGround(Ground):
    """Each contender finds its behaviour where others find the embedder."""

    def started(self, entrant: Entrant) -> AbstractContextManager[Child]:
        models = Models(self.models.embedder / entrant.name, self.models.scorer)
        return child.started(entrant, models, threads=1, work=self.work, environment=self.environment)


def ground(work: Path) -> Ground:
    """In a temporary directory."""
    return FakeGround(models=Models(work, work), threads=1, work=work, environment={})


def job(name: str, do: str, *, repeats: bool = True, **more: object) -> Job:
    """One case."""
    return Job(name=name, command={"do": do, **more}, texts=len(TEXTS), tokens=20, flop=1e6, repeats=repeats)


EMBED = job("embed", "embed", batches=[TEXTS, TEXTS[::-1]])
SCORE = job("score", "score", query="a mill", documents=TEXTS)
CROWD = job("crowd", "crowd", batches=[TEXTS[:2], TEXTS[2:]], repeats=False)
CLIENTS = job("clients", "clients", texts=TEXTS, clients=3)
JOBS = (EMBED, SCORE, CROWD, CLIENTS)


def plan(*jobs: Job, rounds: int = 3) -> Plan:
    """A suite of them."""
    return Plan(name="suite", title="Suite", what="", better="ms", rounds=rounds, jobs=jobs or JOBS)


def expected() -> dict[str, tuple[Rows, ...]]:
    """The right rows of all jobs."""
    score = {SCORE.name: (scores(SCORE.command["query"], SCORE.command["documents"]),)}
    return score | {each.name: tuple(map(vectors, inputs(each.command))) for each in JOBS if each is not SCORE}
