"""Writes the rules of ops/prometheus as a custom resource of the Prometheus Operator.

Run it after a change of the rules: `.venv/bin/python ops/kubernetes/prometheus_rule.py`. Knows that the resource holds
the groups of rule files as they stand. Does not know what they say.
"""

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SOURCES = ("recording.yml", "alerts.yml")
TARGET = HERE / "components" / "monitoring" / "prometheus-rule.yaml"
_HEAD = "# Made of ops/prometheus by ops/kubernetes/prometheus_rule.py: change the rules there.\n"


def rule(folder: Path = HERE.parent / "prometheus") -> dict[str, Any]:
    """The resource, of the rule files in a folder."""
    groups = [group for name in SOURCES for group in yaml.safe_load((folder / name).read_text("utf-8"))["groups"]]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "headrace"},
        "spec": {"groups": groups},
    }


if __name__ == "__main__":
    TARGET.write_text(_HEAD + yaml.safe_dump(rule(), sort_keys=False, width=140), "utf-8")
