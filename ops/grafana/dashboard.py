"""A dashboard: rows of panels, and the variables that narrow them down.

Knows Grafana's JSON of dashboards (schema 39), and where panels stand. Does not know what they show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .panel import DATASOURCE, Panel

SCHEMA = 39
_COLUMNS = 24
_TAG = "headrace"


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader chooses from, All to begin with.

    Attributes:
        name: `$name` in queries, which match it with `=~`.
        label: of the series that has its values.
        series: that has them.
    """

    name: str
    label: str
    series: str

    def to_json(self) -> dict[str, Any]:
        """As Grafana has it."""
        query = f"label_values({self.series}, {self.label})"
        return {
            "name": self.name,
            "label": self.name.replace("_", " "),
            "type": "query",
            "datasource": DATASOURCE,
            "definition": query,
            "query": {"query": query, "refId": self.name},
            "refresh": 2,  # whenever the time range changes: workers come and go
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard; `uid` is part of its address and of its file's name."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]

    def to_json(self) -> dict[str, Any]:
        """As Grafana has it."""
        return {
            "uid": f"{_TAG}-{self.uid}",
            "title": self.title,
            "description": self.description,
            "tags": [_TAG],
            "schemaVersion": SCHEMA,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "annotations": {"list": [_alerts()]},
            "links": [_others()],
            "templating": {"list": [_datasource(), *(each.to_json() for each in self.variables)]},
            "panels": self._panels(),
        }

    def _panels(self) -> list[dict[str, Any]]:
        """Rows from top to bottom, their panels from left to right, numbered from 1."""
        placed: list[dict[str, Any]] = []
        y = 0
        for row in self.rows:
            heading = {"id": len(placed) + 1, "type": "row", "title": row.title, "collapsed": False, "panels": []}
            placed.append({**heading, "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": y}})
            x, y, tallest = 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > _COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                placed.append(panel.to_json(len(placed) + 1, x, y))
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest
        return placed


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}


def _alerts() -> dict[str, Any]:
    """Alerts that fire are marked in every chart."""
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Headrace.+",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{severity}} {{model}} {{instance}}",
    }


def _others() -> dict[str, Any]:
    return {"title": "Headrace", "type": "dashboards", "tags": [_TAG], "asDropdown": True, "keepTime": True}
