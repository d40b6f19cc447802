"""How long each part takes.

Pure.
"""

from dataclasses import dataclass

_QUICK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Seconds of each phase.

    Attributes:
        overload_s: Of the overload.
        capacity_s: Of finding out what the fleet can do, all rungs together.
        idle_s: Of a light load on an idle fleet.
        after_s: To look for the recovery in.
        phase_s: Of a phase of the other parts.
        ready_s: For the processes of a phase to start in.
        is_quick: Whether it only shows that all works: its numbers are no basis for verdicts.
    """

    overload_s: float
    capacity_s: float
    idle_s: float
    after_s: float
    phase_s: float
    ready_s: float = 2.5
    is_quick: bool = False

    @classmethod
    def of(cls, seconds: float, *, is_quick: bool = False) -> "Amount":
        """All phases by that of the overload."""
        return cls(
            overload_s=seconds,
            capacity_s=seconds / 4,
            idle_s=max(2.0, seconds / 6),
            after_s=max(4.0, min(10.0, seconds / 6)),
            phase_s=seconds / 3,
            is_quick=is_quick,
        )

    @classmethod
    def quick(cls) -> "Amount":
        """A few seconds in all."""
        return cls.of(_QUICK_S, is_quick=True)
