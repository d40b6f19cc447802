"""The runbook has what each alert needs."""

import re

import pytest

from . import boards, rules

RUNBOOK = (rules.OPS / "runbook.md").read_text()
_ENTRY = re.compile(r"^### (\w+)\n\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_PANEL = re.compile(r"\*(Fleet|Workers|Jobs|Broker) / ([^*]+)\*")
_LINK = re.compile(r"\]\(#(\w+)\)")


def entries() -> dict[str, str]:
    return dict(_ENTRY.findall(RUNBOOK))


def test_each_alert_has_its_entry_and_each_entry_its_alert() -> None:
    assert list(entries()) == list(dict.fromkeys(entries()))
    assert entries().keys() == {alert.name for alert in rules.alerts()}


@pytest.mark.parametrize("name", entries())
def test_an_entry_says_what_it_means_where_to_look_and_what_to_do(name: str) -> None:
    starts = [line.split("**")[1] for line in entries()[name].splitlines() if line.startswith("**")]
    assert starts == ["Means.", "Look.", "Do."]


def test_panels_that_it_sends_people_to_exist() -> None:
    text = re.sub(r"\s+", " ", RUNBOOK)
    for board, title in _PANEL.findall(text):
        found = boards.all_of_them()[board.lower()]["panels"]
        assert title in {panel["title"] for panel in found}, f"{board} / {title}"


def test_links_lead_to_entries() -> None:
    assert set(_LINK.findall(RUNBOOK)) <= {name.lower() for name in entries()}
