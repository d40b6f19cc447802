"""What one run of the first benchmark found, and its JSON.

It knows what is kept. It does not know how it was measured, nor how a table looks.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ceiling import Ceiling
from engine_alone import Steps
from machine import Machine
from whole_path import WholePath

_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run.

    Attributes:
        machine: Where and of what.
        model: As the command line named it.
        seconds: Budget of a case.
        max_length: Tokens of a sequence that the engine alone was loaded for; the path keeps the model's own limit.
        ceilings: Of matrix products alone, by dtype.
        engine: The engine alone, a row a shape.
        path: The whole path.
    """

    machine: Machine
    model: str
    seconds: float
    max_length: int
    ceilings: tuple[Ceiling, ...]
    engine: tuple[Steps, ...]
    path: WholePath

    def ceiling_share(self, steps: Steps) -> float:
        """The fastest step's tokens a second as a part of the ceiling, which is that of the fastest product."""
        ceiling = next(ceiling for ceiling in self.ceilings if ceiling.dtype == self.machine.dtype)
        return steps.tokens / steps.step.min_ms * 1000 / ceiling.tokens_per_s

    def save(self, file: Path) -> None:
        """Write all of it as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        engine = [asdict(steps) | {"ceiling_share": self.ceiling_share(steps)} for steps in self.engine]
        content = {"schema": _SCHEMA} | asdict(self) | {"engine": engine}
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
