"""All that one run found, and its JSON, which is written anew with each finding: what is known is never lost.

It knows what is kept. It does not know how it was found, nor how a table looks.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from gpu.facts import Facts
from gpu.finding import Bulk, Check, Finding, Timing, as_values
from gpu.floor import Rates, Work

_SCHEMA = 1
Kind = TypeVar("Kind", bound=Finding)


@dataclass(slots=True, kw_only=True)
class Result:
    """One run.

    Attributes:
        date: When it began, UTC.
        facts: Of what it was run on.
        rates: What that reaches at most; None until it is measured.
        budget_s: The seconds it was given.
        took_s: The seconds it took so far.
        end: How it ended.
        is_small: Whether the models were scaled down.
        findings: In order.
    """

    date: str
    facts: Facts
    rates: Rates | None = None
    budget_s: float
    took_s: float = 0
    end: str = "it did not"
    is_small: bool
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Keep a finding, with the floor beside it."""
        self.findings.append(finding if self.rates is None else _with_floor(finding, self.rates))

    def all(self, kind: type[Kind]) -> Iterator[Kind]:
        """The findings of one kind."""
        return (finding for finding in self.findings if isinstance(finding, kind))

    @property
    def has_failed(self) -> bool:
        """Whether any check failed."""
        return any(check.outcome == "failed" for check in self.all(Check))

    def save(self, file: Path) -> None:
        """Write all of it as JSON; whoever looks meanwhile sees the former file or this one."""
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "schema": _SCHEMA,
            "date": self.date,
            "facts": asdict(self.facts),
            "rates": self.rates and asdict(self.rates),
            "budget_s": self.budget_s,
            "took_s": round(self.took_s, 1),
            "end": self.end,
            "is_small": self.is_small,
            "has_failed": self.has_failed,
            "findings": [as_values(finding) for finding in self.findings],
        }
        draft = file.with_name(f"{file.name}.draft")
        draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        draft.replace(file)


def _with_floor(finding: Finding, rates: Rates) -> Finding:
    match finding:
        case Timing():
            return replace(finding, floor_ms=Work(finding.flop, finding.num_bytes).floor_ms(rates))
        case Bulk():
            floor_s = Work(finding.flop, finding.num_bytes).floor_ms(rates) / 1000
            return replace(finding, share=finding.batches_per_s * floor_s)
        case _:
            return finding
