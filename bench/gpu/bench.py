"""What a stage is given: a backend, and how much to do with it.

It knows sizes, for a GPU and for a CPU. It does not know what any stage does with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpu.backend import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much to do.

    Attributes:
        races: Batches with others in flight, for each model.
        shapes: Batches over which memory is watched.
        case_s: For one timing.
        bulk_s: For one bulk.
        bulk: Sequences of a bulk's batch, and tokens of each.
    """

    races: int
    shapes: int
    case_s: float
    bulk_s: float
    bulk: tuple[int, int]


GPU = Sizes(races=260, shapes=2000, case_s=0.25, bulk_s=2.5, bulk=(100, 512))
CPU = Sizes(races=40, shapes=0, case_s=0.02, bulk_s=0.3, bulk=(100, 16))


@dataclass(frozen=True, slots=True)
class Bench:
    """What a stage is given.

    Attributes:
        backend: What runs the models.
        sizes: How much to do.
        wait: Returns when the other processes are ready too.
    """

    backend: Backend
    sizes: Sizes
    wait: Callable[[], object]
