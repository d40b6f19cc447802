"""One call as its caller saw it, and what can be said of many.

Pure. It knows the four ends of a call. Times are of time.perf_counter, one clock for all processes of a machine.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["answered", "refused", "expired", "failed"]
"""refused: told to come back later; expired: no answer within the deadline; failed: anything else, which is a fault."""


class Call(NamedTuple):
    """One call.

    Attributes:
        began_s: When the caller made it.
        late_ms: How long after it was due that was: the fault of whoever generates the load.
        took_ms: Until it ended, in whatever way.
        kind: How it ended.
        tokens: That were answered.
        run_ms: Longest step that any of it ran in; 0 where nobody says.
    """

    began_s: float
    late_ms: float
    took_ms: float
    kind: Kind
    tokens: int = 0
    run_ms: float = 0

    @property
    def ended_s(self) -> float:
        """When it ended."""
        return self.began_s + self.took_ms / 1000


def took_ms(calls: Iterable[Call], *kinds: Kind) -> list[float]:
    """Durations of the calls that ended so."""
    return [call.took_ms for call in calls if call.kind in kinds]


def begun(calls: Iterable[Call], first_s: float, last_s: float) -> list[Call]:
    """Those that were made within these moments."""
    return [call for call in calls if first_s <= call.began_s < last_s]


def ended(calls: Iterable[Call], first_s: float, last_s: float) -> list[Call]:
    """Those that ended within these moments."""
    return [call for call in calls if first_s <= call.ended_s < last_s]
