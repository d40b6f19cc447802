"""What goes wrong in a run, and when: a plan out of a seed.

Pure. It does not know how anything is broken or mended: chaos.py has it done.
"""

import random
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "producer killed",
    "writer killed",
    "producer frozen",
    "worker killed",
    "worker frozen",
    "server killed",
    "server restarted",
    "server frozen",
    "disk full",
    "queue full",
    "results full",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Of these a run has some more, since they are what happens most, and at other moments each time.
_OFTEN: tuple[Kind, ...] = ("producer killed", "writer killed", "worker killed", "server killed", "disk full")
_GAP_S, _LONGEST_GAP_S = 1.5, 4.0
_SHORTEST_S, _LONGEST_S = 0.1, 3.0
# One in so many lasts until the broker has given up on whoever is gone.
_LONG_ONE_IN, _LONG_S = 5, 8.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        kind: What.
        after_s: Since the one before has begun; it may go on.
        lasts_s: Until what is gone, frozen or full is back.
        which: Number of the process, where there are several: modulo how many there are.
    """

    kind: Kind
    after_s: float
    lasts_s: float
    which: int


def plan(seed: int, num: int = 16) -> list[Fault]:
    """Faults in their order: each kind at least once where `num` allows, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - it is to be told in advance
    kinds = list(KINDS) + chance.choices(_OFTEN, k=max(0, num - len(KINDS)))
    chance.shuffle(kinds)
    return [
        Fault(
            kind=kind,
            after_s=min(_LONGEST_GAP_S, chance.expovariate(1 / _GAP_S)),
            lasts_s=_LONG_S if chance.randrange(_LONG_ONE_IN) == 0 else chance.uniform(_SHORTEST_S, _LONGEST_S),
            which=chance.randrange(1000),
        )
        for kind in kinds[:num]
    ]
