"""The record of one calibration: for what, under which conditions, what was measured, and what follows.

Knows what makes a calibration stale. Does not know where it is kept, nor how it looks in a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import Row

from headrace_workers.calibration.choose import Choice
from headrace_workers.calibration.cost import Cost, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a calibration is for.

    Attributes:
        fingerprint: of the model.
        device: what its maker calls it.
        dtype: of weights and activations, "float32", "bfloat16" or "float16".
    """

    fingerprint: str
    device: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a time depends on besides; all of it must be the same again.

    Attributes:
        processor: what tells CPUs of one name apart, as far as the system says; empty on a CUDA device.
        cores: of a CPU that this process may use, by its affinity and its cgroup's quota; 0 on a CUDA device.
        threads: of a CPU that a step may use; 0 on a CUDA device.
        attention: what was asked for, "auto" or a name.
        backends: attention backends that were installed, as name==version with commas between; none counts on a CPU.
        graphs: whether CUDA graphs are captured.
        torch: its version.
        headrace: its version.
    """

    processor: str
    cores: float
    threads: int
    attention: str
    backends: str
    graphs: bool
    torch: str
    headrace: str

    def differences(self, now: "Conditions") -> Iterator[str]:
        """What is different now, each as a few words."""
        for field in fields(self):
            before, after = getattr(self, field.name), getattr(now, field.name)
            if before != after:
                yield f"{field.name} {_word(before)}, now {_word(after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One calibration.

    Attributes:
        key: what it is for.
        conditions: under which it was made.
        model: what the user named the model by.
        max_length: tokens of its longest sequence.
        made: the day, as 2026-11-29.
        points: what was measured.
        cost: the law that they follow.
        choice: the budgets.
        table: orders of attention backends, measured here; None where there is nothing to choose.
        max_graph_tokens: batches of more tokens gain nothing by a CUDA graph; None where that was not measured.
    """

    key: Key
    conditions: Conditions
    model: str
    max_length: int
    made: str
    points: tuple[Point, ...]
    cost: Cost
    choice: Choice
    table: tuple[Row, ...] | None = None
    max_graph_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("points is empty: there must be one at least")
        if self.max_length < 1 or (self.max_graph_tokens or 0) < 0:
            raise ValueError(
                f"max_length is {self.max_length}, max_graph_tokens {self.max_graph_tokens}: the first must be at "
                "least 1, the second 0"
            )
        unknown = {name for row in self.table or () for name in row.order} - OBSTACLES.keys()
        if unknown:
            raise ValueError(f"table names {', '.join(sorted(unknown))}, which no attention backend is called")

    @property
    def longest_measured(self) -> int:
        """Tokens of the longest sequence that was measured."""
        return max(point.longest for point in self.points)

    @property
    def spread(self) -> float | None:
        """How far the times of one batch lie apart, in the middle of all: how calm the machine was.

        None where no batch was run twice.
        """
        spreads = sorted(point.spread for point in self.points if point.num_times > 1)
        return spreads[len(spreads) // 2] if spreads else None


@dataclass(frozen=True, slots=True)
class Absence:
    """There is no calibration to go by.

    Attributes:
        reason: why, for a person.
        remedy: the command that makes one; None where none was wanted.
        is_cuda: whether it would be for a CUDA device, where it also holds the order of attention backends and the
            limit of graphs.
    """

    reason: str
    remedy: str | None = None
    is_cuda: bool = False


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"
