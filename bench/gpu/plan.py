"""What comes before what.

Pure. It knows which stages are worth more when time is short: first whether all backends are right, then what the
favourite costs, then the others. It does not know what a stage does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A stage of one backend.

    Attributes:
        stage: Which.
        backend: Whose.
    """

    stage: str
    backend: str


@dataclass(frozen=True, slots=True)
class Rules:
    """How stages are run.

    Attributes:
        seconds: How long one may take.
        wants_quiet: Whether nothing else may run meanwhile.
    """

    seconds: float
    wants_quiet: bool = False


RIGHT = {"attention": Rules(10), "rows": Rules(25), "leaks": Rules(8), "races": Rules(20)}
COSTS = {
    "steps": Rules(20, wants_quiet=True),
    "captures": Rules(12, wants_quiet=True),
    "host": Rules(4, wants_quiet=True),
}
BULK = {"bulk": Rules(45, wants_quiet=True)}
MEMORY = {"memory": Rules(40, wants_quiet=True)}
RULES = {**RIGHT, **COSTS, **BULK, **MEMORY}


def plan(backends: Sequence[str]) -> Iterator[Job]:
    """All jobs, the ones worth most first.

    Args:
        backends: Those that can run, the favourite first.
    """
    favourite, others = backends[:1], backends[1:]
    yield from (Job(stage, backend) for stage in RIGHT for backend in backends)
    yield from (Job(stage, backend) for backend in favourite for stage in (*COSTS, *BULK, *MEMORY))
    yield from (Job(stage, backend) for stage in (*COSTS, *MEMORY) for backend in others)
