"""What a part found: numbers, and verdicts on some of them.

Pure. It knows neither how anything was measured nor how a report looks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from timing import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that must hold.

    Attributes:
        what: That is judged, in words.
        found: The value.
        limit: What it may be at most, or must be at least.
        sense: Which of the two.
        unit: Of both.
    """

    what: str
    found: float
    limit: float
    sense: Literal["at most", "at least"]
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is so; what is no number never is."""
        return self.found <= self.limit if self.sense == "at most" else self.found >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number.

    Attributes:
        what: It is, in words.
        value: The number.
        unit: Of it.
    """

    what: str
    value: float
    unit: str = ""

    @classmethod
    def spread(cls, what: str, durations_ms: Sequence[float]) -> "list[Figure]":
        """The median and the p99 of some durations; nothing of none."""
        if not durations_ms:
            return []
        spread = Spread.of(durations_ms)
        return [
            cls(what=f"{what}, p50", value=spread.p50_ms, unit="ms"),
            cls(what=f"{what}, p99", value=spread.p99_ms, unit="ms"),
        ]


def p99_ms(durations_ms: Sequence[float]) -> float:
    """Of some durations; of none it is no number, which holds no verdict."""
    return Spread.of(durations_ms).p99_ms if durations_ms else math.nan


def p90_ms(durations_ms: Sequence[float]) -> float:
    """What nine of ten do not exceed, likewise."""
    return Spread.of(durations_ms).p90_ms if durations_ms else math.nan


def p50_ms(durations_ms: Sequence[float]) -> float:
    """The median likewise."""
    return Spread.of(durations_ms).p50_ms if durations_ms else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One part.

    Attributes:
        part: Its name.
        what: Was done, in a sentence.
        figures: In the order in which they are read.
        verdicts: On them.
        series: Numbers over time, by name.
        notes: What a reader must know of this run.
        not_run: Why it was left out; empty if it was not.
        broke: What ended it before its time; empty if nothing did.
    """

    part: str
    what: str
    figures: Sequence[Figure] = ()
    verdicts: Sequence[Verdict] = ()
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    not_run: str = ""
    broke: str = ""

    @classmethod
    def broken(cls, part: str, error: BaseException) -> "Finding":
        """A part that an error has ended, with the error's words; with those of the first of a group."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return cls(part=part, what="was not finished", broke=str(error) or repr(error))

    @property
    def fails(self) -> bool:
        """Whether it broke, or a verdict does not hold. A part that was left out fails none."""
        return bool(self.broke) or not all(verdict.holds for verdict in self.verdicts)
