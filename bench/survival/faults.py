"""What goes wrong in a trial, and when: a plan out of a seed.

Pure. It does not know how anything is broken or mended: breaking.py has it done.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "node killed",
    "node restarted",
    "node frozen",
    "node disk full",
    "node store truncated",
    "node store lost",
    "all nodes killed",
    "link of a node cut",
    "link of a worker cut",
    "link of a caller cut",
    "link of a producer cut",
    "link lossy",
    "link slow",
    "route cut",
    "route cut one way",
    "worker killed",
    "worker drained",
    "worker frozen",
    "device lost",
    "device hangs",
    "device gives NaN",
    "producer killed",
    "producer frozen",
    "caller killed",
    "caller frozen",
    "sink disk full",
    "worker clock jumps",
    "caller clock jumps",
    "device fails once",
    "credentials of a worker expire",
    "credentials of a caller expire",
    "credentials of a producer expire",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# What happens most in the life of a fleet happens more often here, too.
_WEIGHTS: Mapping[Kind, float] = {
    "node killed": 3,
    "node restarted": 2,
    "link of a node cut": 3,
    "worker killed": 3,
    "worker frozen": 2,
    "producer killed": 2,
    "all nodes killed": 0.3,
    "node store truncated": 0.5,
    "node store lost": 0.5,
}
_GAP_S = 1.8
# These came later. They are drawn apart, so that what a seed does besides is what it did when it was first tried.
_LATER: Mapping[Kind, float] = {
    "worker clock jumps": 15,
    "caller clock jumps": 30,
    "device fails once": 15,
    "credentials of a worker expire": 40,
    "credentials of a caller expire": 40,
    "credentials of a producer expire": 40,
}
_SHORTEST_S, _LONGEST_S = 0.1, 4.0
# One in so many lasts until servers have chosen other leaders and given unanswered work to others.
_LONG_ONE_IN, _LONG_S = 5, 12.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        kind: What.
        at_s: Since the start of the trial's faults.
        lasts_s: Until what is gone, frozen, full or cut is back.
        which: Number of the process or node, modulo how many there are.
    """

    kind: Kind
    at_s: float
    lasts_s: float
    which: int


def plan(seed: int, seconds: float, kinds: tuple[Kind, ...] = KINDS) -> list[Fault]:
    """Faults in their order, some beside each other; the same ones for the same seed.

    Args:
        seed: Of all that is random.
        seconds: Within which all of them begin.
        kinds: Those that can be done here; others are left out, which makes it another plan.
    """
    first = tuple(kind for kind in kinds if kind not in _LATER)
    found = _drawn(random.Random(seed), first, _GAP_S, seconds) if first else []  # noqa: S311 - to be told in advance
    for kind, gap_s in _LATER.items():
        if kind in kinds:
            found += _drawn(random.Random(f"{kind} {seed}"), (kind,), gap_s, seconds)  # noqa: S311 - likewise
    return sorted(found, key=lambda fault: fault.at_s)


def place_of(fault: Fault, places: Sequence[str]) -> str:
    """The place of a fault of one, such as worker-1 of `link of a worker cut`.

    Args:
        fault: Its last word but one is the kind of the place.
        places: Names of all that there are.
    """
    kind = fault.kind.split()[-2]
    of_kind = [name for name in places if name.startswith(f"{kind}-")]
    return of_kind[fault.which % len(of_kind)]


def _drawn(chance: random.Random, kinds: Sequence[Kind], gap_s: float, seconds: float) -> list[Fault]:
    weights = [_WEIGHTS.get(kind, 1.0) for kind in kinds]
    found = []
    at_s = chance.expovariate(1 / gap_s)
    while at_s < seconds:
        (kind,) = chance.choices(kinds, weights)
        lasts_s = _LONG_S if chance.randrange(_LONG_ONE_IN) == 0 else chance.uniform(_SHORTEST_S, _LONGEST_S)
        found.append(Fault(kind, at_s, lasts_s, chance.randrange(1000)))
        at_s += chance.expovariate(1 / gap_s)
    return found
