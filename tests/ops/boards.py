"""The dashboards in ops/grafana/, as Grafana reads them."""

import json
import re
from dataclasses import dataclass
from typing import Any

from . import rules

FOLDER = rules.OPS / "grafana" / "dashboards"
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Asked:
    """One query of one panel."""

    where: str
    expr: str

    @property
    def variables(self) -> set[str]:
        return set(_VARIABLE.findall(self.expr))

    def as_grafana_would(self, interval: str) -> str:
        """With every variable at All."""
        return _VARIABLE.sub(lambda found: interval if found[1] == "__rate_interval" else ".*", self.expr)


def all_of_them() -> dict[str, dict[str, Any]]:
    """From the name of the file to what is in it."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Those with something in them: no headings of rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> list[Asked]:
    return [
        Asked(f"{name}: {panel['title']}", target["expr"])
        for name, board in all_of_them().items()
        for panel in panels(board)
        for target in panel["targets"]
    ]
