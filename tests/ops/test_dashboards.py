"""What holds for all dashboards. Whether their queries are answered is in test_live.py."""

import re
import subprocess
import sys
from itertools import combinations
from typing import Any

import pytest
import yaml

from . import boards, rules

BOARDS = boards.all_of_them()
_RECORDED = re.compile(r"\b[a-z_]+:headrace_[a-z0-9_]+:[a-z0-9_]+\b")
_PRINT = "from ops.grafana.build import files; import json; print(json.dumps(dict(files())))"


def test_what_is_kept_is_what_is_written_by_python() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _PRINT], check=True, capture_output=True, text=True, cwd=rules.OPS.parent
    )
    kept = {path.name: path.read_text() for path in boards.FOLDER.iterdir()}
    assert yaml.safe_load(said.stdout) == kept, "python -m ops.grafana.build writes them anew"


def test_there_is_one_for_users_workers_jobs_and_the_broker() -> None:
    assert BOARDS.keys() == {"fleet", "workers", "jobs", "broker"}
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_each_panel_says_what_it_shows_in_which_unit_and_when_to_worry(board: dict[str, Any]) -> None:
    assert board["schemaVersion"] >= 39
    for panel in boards.panels(board):
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        first, *further = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert first["value"] is None
        values = [step["value"] for step in further]
        assert values == sorted(values), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_panels_have_numbers_and_places_of_their_own(board: dict[str, Any]) -> None:
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))
    for one, other in combinations((panel["gridPos"] for panel in board["panels"]), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_a_reader_may_choose_all_of_a_variable_and_each_one_is_used(board: dict[str, Any]) -> None:
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert variables.pop("datasource")["type"] == "datasource"
    written = [target["expr"] for panel in boards.panels(board) for target in panel["targets"]]
    used = {name for expr in written for name in boards.Asked("", expr).variables} - {"__rate_interval"}
    assert used == variables.keys()
    assert all(each["includeAll"] and each["multi"] for each in variables.values())


def test_recorded_series_that_are_shown_or_watched_are_recorded() -> None:
    recorded = {rule.name for rule in rules.recordings()}
    shown = {name for asked in boards.queries() for name in _RECORDED.findall(asked.expr)}
    watched = {name for rule in rules.alerts() for name in _RECORDED.findall(rule.expr)}
    assert shown | watched <= recorded


def test_grafana_finds_the_dashboards_where_the_provisioning_says() -> None:
    folder = rules.OPS / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "headrace.yml").read_text())["providers"]
    assert provider["options"]["path"].endswith(boards.FOLDER.name)
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())["datasources"]
    scraped = yaml.safe_load((rules.FOLDER / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped
