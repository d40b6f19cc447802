"""Rules and alerts of Prometheus, by promtool."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import rules

_ALERTNAME = re.compile(r'alertname="(\w+)"')


def _promtool(program: Callable[[str], str], *arguments: str | Path) -> None:
    done = subprocess.run([program("promtool"), *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_configuration(program: Callable[[str], str]) -> None:
    _promtool(program, "check", "config", rules.FOLDER / "prometheus.yml")


@pytest.mark.parametrize("test", rules.unit_tests(), ids=lambda test: str(test.stem))
def test_alerts_fire_when_they_should_and_only_then(test: Path, program: Callable[[str], str]) -> None:
    _promtool(program, "test", "rules", test)


def test_each_alert_is_seen_firing_and_seen_silent_in_the_same_file() -> None:
    names = {alert.name for alert in rules.alerts()}
    shown: set[str] = set()
    for test in rules.unit_tests():
        expected = [str(each.get("exp_samples", "")) for each in rules.expectations(test)]
        if any(not samples for samples in expected):
            shown |= {name for samples in expected for name in _ALERTNAME.findall(samples)}
    assert shown == names


def test_each_alert_says_how_bad_it_is_what_it_is_and_where_to_read_on() -> None:
    for alert in rules.alerts():
        assert alert.labels["severity"] in {"critical", "warning"}, alert.name
        assert alert.annotations.keys() == {"summary", "description", "runbook_url"}, alert.name
        assert alert.annotations["runbook_url"] == f"ops/runbook.md#{alert.name.lower()}"
        assert len(alert.annotations["summary"]) <= 80, alert.name


def test_names_of_alerts_are_said_once() -> None:
    names = [alert.name for alert in rules.alerts()]
    assert len(names) == len(set(names))
