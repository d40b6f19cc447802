"""The command for online traffic: flags choose, and a quick run of all parts meets real processes."""

import json
import sys
from pathlib import Path

import online_run
import psutil
import pytest
from economics.processes import ProcessFailed
from headrace import Client
from headrace.options import EmbedOptions
from online import gateway_process
from online.traffic import of_tenant

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


def test_a_tenant_is_named_to_what_knows_tenants_and_to_nothing_else() -> None:
    def knows(*, tenant: str | None = None) -> str | None:
        return tenant

    def does_not() -> None:
        return None

    assert of_tenant(knows, "a") == {"tenant": "a"}
    assert of_tenant(knows, None) == of_tenant(does_not, "a") == {}
    # Whatever the client of today knows can be called so.
    assert EmbedOptions(**of_tenant(EmbedOptions, "a")).priority == "online"
    assert of_tenant(Client.connect, "a") in ({}, {"tenant": "a"})


@pytest.mark.timeout(240)
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
