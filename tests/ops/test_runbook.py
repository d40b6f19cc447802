"""The runbook has what each alert needs, and what it has people type exists."""

import re
from typing import Any

import pytest
from headrace.cli import build
from typer.main import get_command

from . import boards, rules

RUNBOOK = (rules.OPS / "runbook.md").read_text()
_ENTRY = re.compile(r"^### (\w+)\n\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"`headrace ([^`]+)`")
_PANEL = re.compile(r"\*(Fleet|Workers|Jobs|Broker) / ([^*]+)\*")
_HEADRACE = get_command(build())
_LINK = re.compile(r"\]\(#(\w+)\)")


def entries() -> dict[str, str]:
    return dict(_ENTRY.findall(RUNBOOK))


def commands() -> list[str]:
    found = {re.sub(r"\s+", " ", each) for each in _COMMAND.findall(RUNBOOK)}
    return sorted(each for each in found if not each.endswith("--help"))


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


@pytest.mark.parametrize("typed", commands())
def test_a_command_that_it_has_people_type_exists(typed: str) -> None:
    """Its subcommands, flags and arguments are parsed as they would be; nothing is run."""
    words = typed.split()
    command: Any = _HEADRACE
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert not words or not hasattr(command, "commands"), f"there is no {words[0]!r} in `headrace {typed}`"
    command.make_context(f"headrace {typed}", words)


def test_flags_that_it_names_alone_are_those_of_some_command() -> None:
    def of(command: Any) -> set[str]:
        own = {flag for each in command.params for flag in each.opts}
        return own.union(*(of(each) for each in getattr(command, "commands", {}).values()))

    assert set(re.findall(r"`(--[a-z-]+)", RUNBOOK)) <= of(_HEADRACE)
