"""One panel: a question, the queries that answer it, and how its numbers are read.

Knows Grafana's JSON of panels (schema 39). Does not know where a panel stands: dashboard.py does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# From this value on, this colour. What is below the first is green, or the colour at None.
Thresholds: TypeAlias = Sequence[tuple[float | None, str]]

_LINES = {
    "custom": {
        "drawStyle": "line",
        "fillOpacity": 10,
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
    }
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and what its answers are called.

    Attributes:
        expr: PromQL; `$model` and its like are Grafana's variables.
        legend: of each series, `{{label}}` being the value of a label.
    """

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: the question, in a few words.
        description: what is seen, and when to worry.
        unit: as Grafana names it: `s`, `bytes`, `percentunit`, `short`, `ops`, `none`.
        queries: one or more.
        thresholds: where the colour changes; drawn as lines in a chart.
        kind: a chart over time, one number a series, or a table with a row a series.
        width: of 24 columns.
        stacked: whether series are added up.
        bounds: least and most of the axis, where they are known.
        columns: of a table, by label or `Value #A`, and what they are called; all others are left out.
        texts: what a number stands for.
    """

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    thresholds: Thresholds = ()
    kind: Literal["timeseries", "stat", "table"] = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    bounds: tuple[float | None, float | None] = (0, None)
    columns: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """As Grafana has it, at a place of the grid."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
            "targets": [self._target(index, query) for index, query in enumerate(self.queries)],
            **self._transformations(),
        }

    def _defaults(self) -> dict[str, Any]:
        steps = list(self.thresholds)
        if not steps or steps[0][0] is not None:
            steps = [(None, "green"), *steps]
        least, most = self.bounds
        defaults: dict[str, Any] = {
            "unit": self.unit,
            "color": {"mode": "palette-classic" if self.kind == "timeseries" else "thresholds"},
            "thresholds": {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]},
            "mappings": [{"type": "value", "options": {key: {"text": text} for key, text in self.texts.items()}}]
            if self.texts
            else [],
        }
        defaults |= {} if least is None else {"min": least}
        defaults |= {} if most is None else {"max": most}
        if self.kind == "timeseries":
            drawn = {"mode": "dashed" if self.thresholds else "off"}
            stacking = {"mode": "normal" if self.stacked else "none", "group": "A"}
            defaults["custom"] = {**_LINES["custom"], "thresholdsStyle": drawn, "stacking": stacking}
        return defaults

    def _options(self) -> dict[str, Any]:
        if self.kind == "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        if self.kind == "stat":
            return {
                "colorMode": "value",
                "graphMode": "area",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "textMode": "auto",
            }
        return {"showHeader": True}

    def _target(self, index: int, query: Query) -> dict[str, Any]:
        target: dict[str, Any] = {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
        }
        return target | ({"instant": True, "range": False, "format": "table"} if self.kind == "table" else {})

    def _transformations(self) -> dict[str, Any]:
        if self.kind != "table":
            return {}
        order = {name: index for index, name in enumerate(self.columns)}
        return {
            "transformations": [
                {"id": "merge", "options": {}},
                {"id": "filterFieldsByName", "options": {"include": {"names": list(self.columns)}}},
                {"id": "organize", "options": {"indexByName": order, "renameByName": dict(self.columns)}},
            ]
        }
