"""How long each part takes.

Pure.
"""

from dataclasses import dataclass


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
        build_up_s: For a heavy load to fill what can be filled, before it is looked at.
        is_quick: Whether it only shows that all works: its numbers are no basis for verdicts.
    """

    overload_s: float
    capacity_s: float
    idle_s: float
    after_s: float
    phase_s: float
    ready_s: float = 2.5
    build_up_s: float = 2.0
    is_quick: bool = False

    @property
    def part_s(self) -> float:
        """What no part needs, on however slow a machine: one that takes so long has hung."""
        return 180 + 3 * (self.overload_s + self.capacity_s + self.idle_s + self.after_s + self.phase_s)

    @classmethod
    def of(cls, seconds: float) -> "Amount":
        """All phases by that of the overload."""
        return cls(
            overload_s=seconds,
            capacity_s=seconds / 4,
            idle_s=max(2.0, seconds / 6),
            after_s=max(4.0, min(10.0, seconds / 6)),
            phase_s=seconds / 3,
        )

    @classmethod
    def quick(cls) -> "Amount":
        """A second or so of each phase."""
        return cls(
            overload_s=1.0,
            capacity_s=0.6,
            idle_s=1.0,
            after_s=1.5,
            phase_s=0.6,
            ready_s=1.2,
            build_up_s=0.4,
            is_quick=True,
        )
