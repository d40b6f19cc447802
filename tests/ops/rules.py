"""What ops/prometheus/ holds, read as a Prometheus would: for the tests of rules, dashboards and the runbook."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

OPS = Path(__file__).parents[2] / "ops"
FOLDER = OPS / "prometheus"
METRIC = re.compile(r"\bheadrace_[a-z0-9_]+")


@dataclass(frozen=True)
class Rule:
    """A recording rule or an alert; `name` is that of the series or of the alert."""

    name: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]


def _rules(file: str, key: str) -> list[Rule]:
    written = yaml.safe_load((FOLDER / file).read_text())
    return [
        Rule(rule[key], rule["expr"], rule.get("labels", {}), rule.get("annotations", {}))
        for group in written["groups"]
        for rule in group["rules"]
    ]


def alerts() -> list[Rule]:
    return _rules("alerts.yml", "alert")


def recordings() -> list[Rule]:
    return _rules("recording.yml", "record")


def unit_tests() -> list[Path]:
    return sorted((FOLDER / "tests").glob("*.yml"))


def expectations(test: Path) -> list[dict[str, Any]]:
    """What promtool compares in one file, all its cases together: expressions with the samples that they have."""
    return [each for case in yaml.safe_load(test.read_text())["tests"] for each in case.get("promql_expr_test", [])]
