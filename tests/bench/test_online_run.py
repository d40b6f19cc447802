"""The command for online traffic: flags choose, and a quick run of all parts meets real processes."""

import asyncio
import json
import sys
from pathlib import Path

import online_run
import psutil
import pytest
from economics.processes import ProcessFailed
from online import gateway_process
from online.amount import Amount
from online.cores import Cores
from online.finding import Finding
from online.ground import Ground
from workloads import Texts

BENCH = Path(online_run.__file__).parent


def test_flags_choose_parts_in_the_order_of_the_command_and_the_time_of_all_phases() -> None:
    flags = online_run.Flags.parse(["--parts", "floor", "overload", "--seconds", "30", "--step-tokens", "512"])
    assert flags.parts == ("overload", "floor")
    assert flags.amount.overload_s == 30
    assert flags.options == ("--dtype", "auto", "--step-tokens", "512")
    assert flags.split
    assert online_run.Flags.parse([]).parts == tuple(online_run.PARTS)
    assert online_run.Flags.parse(["--quick", "--shared"]).amount.is_quick


@pytest.mark.parametrize("wrong", [["--parts", "nothing"], ["--seconds", "0.1"], ["--deadline", "soon"]])
def test_a_wrong_flag_ends_the_program(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        online_run.Flags.parse(wrong)
    assert wrong[0] in capsys.readouterr().err


@pytest.mark.timeout(240)
@pytest.mark.whole_run
def test_a_quick_run_of_all_parts_answers_calls_in_each_and_leaves_no_process(tmp_path: Path) -> None:
    out = tmp_path / "folder" / "online.json"
    process = psutil.Popen([sys.executable, str(BENCH / "online_run.py"), "--quick", "--out", str(out)])
    assert process.wait(220) == 0
    found = {finding["part"]: finding for finding in json.loads(out.read_text("utf-8"))["findings"]}
    assert list(found) == list(online_run.PARTS)
    for part, finding in found.items():
        assert finding["broke"] == "", part
        assert finding["notes"] == [], part
        if not finding["not_run"]:
            assert all(figure["value"] is not None for figure in finding["figures"]), part
    assert {part for part, finding in found.items() if finding["not_run"]} <= {"gateway"}
    books = {figure["what"]: figure["value"] for figure in found["overload"]["figures"] if figure["unit"] == "calls"}
    assert books["offered"] == books["answered"] + books["refused"] + books["expired"] > 0
    assert books["answered"] > 0
    assert len(found["overload"]["series"]["MiB of worker"]) > 0
    orphans = [each for each in psutil.process_iter(["cmdline", "ppid"]) if each.info["ppid"] == 1]
    assert not [each for each in orphans if "online.traffic" in (each.info["cmdline"] or [])]


async def test_a_gateway_that_cannot_start_is_told_and_leaves_no_process() -> None:
    before = set(psutil.Process().children())
    with pytest.raises(ProcessFailed, match="before it was ready"):
        async with gateway_process.running("nats://127.0.0.1:1"):
            pytest.fail("there is no nats-server")
    assert set(psutil.Process().children()) == before


def ground(tmp_path: Path, amount: Amount) -> Ground:
    """Of parts that need nothing."""
    cores, texts = Cores((0,), (0,)), Texts.__new__(Texts)
    return Ground(model=tmp_path, texts=texts, cores=cores, amount=amount, deadline_s=2, options=(), say=lambda _: None)


async def test_a_part_that_breaks_or_hangs_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def good(_: Ground) -> Finding:
        return Finding(part="floor", what="is done")

    async def bad(_: Ground) -> Finding:
        raise ExceptionGroup("of tasks", [ProcessFailed("online.traffic ended with exit code 1")])

    async def endless(_: Ground) -> Finding:
        await asyncio.Event().wait()
        raise AssertionError("This is a bug")

    monkeypatch.setattr(online_run, "PARTS", {"overload": bad, "mix": endless, "floor": good})
    monkeypatch.setattr(Amount, "part_s", 0.05)
    broken, hung, done = await online_run.measure(ground(tmp_path, Amount.quick()), ["overload", "mix", "floor"])
    assert broken.broke == "online.traffic ended with exit code 1"
    assert hung.broke == "it was not done after 0.05 s"
    assert broken.fails
    assert hung.fails
    assert done.what == "is done"
