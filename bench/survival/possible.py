"""Which kinds of faults can be done to a fleet, and leave it something that is promised.

Pure. It knows what each kind needs. How a fault is done is breakage.py's.
"""

from collections.abc import Sequence

from survival.faults import KINDS, Kind
from survival.fleet import Fleet

_OF_STORES = frozenset[Kind]({"node store truncated", "node store lost"})
_OF_ROUTES = frozenset[Kind]({"route cut", "route cut one way"})


def possible(fleet: Fleet) -> tuple[Kind, ...]:
    """Those of all kinds that can be, in their order."""
    return tuple(kind for kind in KINDS if _is_possible(kind, fleet))


def _is_possible(kind: Kind, fleet: Fleet) -> bool:
    cluster = fleet.cluster
    if kind in _OF_STORES:
        return len(cluster.nodes) > 1  # of a single copy all that was acknowledged may be gone
    if kind.startswith("credentials"):
        return fleet.passes is not None
    if kind in _OF_ROUTES:
        return cluster.links is not None and len(cluster.nodes) > 1
    if kind == "link slow":
        return cluster.links is not None
    if kind.startswith("link"):
        return cluster.links is not None and _has_ends(kind, cluster.links.names)
    return "clock" not in kind or any(name.startswith(kind.partition(" ")[0]) for name in fleet.clocks)


def _has_ends(kind: Kind, linked: Sequence[str]) -> bool:
    """Whether both ends of what is cut are among the places that have links."""
    of = kind.removeprefix("link of a ").removesuffix(" cut")
    is_there = of in {kind, "node"} or any(name.startswith(f"{of}-") for name in linked)
    return is_there and len(linked) > 1
