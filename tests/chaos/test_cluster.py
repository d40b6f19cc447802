"""Clusters of real servers: R3 through partitions, crashes and standstills, from clients in places of their own."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from survival.cluster import NAMES, Cluster, NotReady, cluster
from survival.node import Node, num_messages
from survival.place import NotPermitted

from ..fleet.broker_view import connected

STREAM = "WHEEL"
LEFT, MIDDLE, RIGHT = NAMES


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three servers and two places, each in a namespace."""
    try:
        with cluster(tmp_path, kind="namespaces", extra_places=("worker-0", "client-0")) as made:
            await made.ready()
            yield made
    except NotPermitted as error:
        pytest.skip(str(error))


async def made(connection: NatsClient, *, replicas: int) -> None:
    config = {"name": STREAM, "subjects": ["wheel"], "num_replicas": replicas, "storage": "file"}
    assert await api(connection, f"STREAM.CREATE.{STREAM}", config)


async def published(connection: NatsClient, num: int) -> None:
    for number in range(num):
        await connection.jetstream().publish("wheel", str(number).encode(), timeout=10)


def detail(node: Node) -> dict[str, Any]:
    """What a server knows of the NATS stream; raises OSError, KeyError or StopIteration while it knows nothing."""
    accounts = node.ask("/jsz?streams=true")["account_details"]
    return next(dict(each) for account in accounts for each in account["stream_detail"] if each["name"] == STREAM)


async def leader(nodes: list[Node]) -> str:
    """Who leads the NATS stream, once one of these says that it does."""
    async with asyncio.timeout(30):
        while True:
            for node in nodes:
                with suppress(OSError, KeyError, StopIteration):
                    found = await asyncio.to_thread(detail, node)
                    if found["cluster"].get("leader") == node.name:
                        return node.name
            await asyncio.sleep(0.05)


async def whole(nodes: list[Node], num: int) -> None:
    """Wait until all have so many messages."""
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError, KeyError):
                if {await asyncio.to_thread(num_messages, node, STREAM) for node in nodes} == {num}:
                    return
            await asyncio.sleep(0.05)


async def test_who_leads_is_isolated_and_the_others_go_on_until_it_is_back(apart: Cluster) -> None:
    assert apart.links is not None
    nodes = apart.nodes
    async with connected(apart.url) as connection:
        await made(connection, replicas=3)
        await published(connection, 10)
    first = await leader([*nodes.values()])
    apart.links.isolate(first)
    others = [node for node in nodes.values() if node.name != first]
    assert await leader(others) != first
    assert nodes[first].ask("/varz")["server_name"] == first, "who drives the run can look"
    async with connected(others[0].url) as connection:
        await published(connection, 5)
    apart.links.mend()
    await apart.ready()
    await whole([*nodes.values()], 15)


async def test_clients_in_places_are_cut_from_servers_as_those_are_from_each_other(apart: Cluster) -> None:
    assert apart.links is not None
    code = "import socket, sys; print(socket.create_connection((sys.argv[1], 4222), timeout=1).recv(4).decode())"

    def connects(place: str, to: str) -> bool:
        command = apart.places[place].command(sys.executable, "-I", "-c", code, apart.nodes[to].place.address)
        return subprocess.run(command, capture_output=True, check=False).stdout == b"INFO\n"

    apart.links.cut("worker-0", LEFT)
    apart.links.cut_one_way(RIGHT, "client-0")
    found = await asyncio.gather(
        *(asyncio.to_thread(connects, place, to) for place in apart.places for to in (LEFT, RIGHT))
    )
    assert found == [False, True, True, False]


async def test_servers_are_killed_stopped_and_frozen_and_have_their_messages_afterwards(apart: Cluster) -> None:
    nodes = apart.nodes
    async with connected(apart.url) as connection:
        await made(connection, replicas=3)
        await published(connection, 10)
        for node in nodes.values():
            node.kill()
            node.kill()
        assert not any(node.is_running for node in nodes.values())
        with pytest.raises(RuntimeError, match="left is down"):
            _ = nodes[LEFT].pid
        for node in nodes.values():
            node.start()
            node.start()
        await apart.ready()
        await whole([*nodes.values()], 10)
        nodes[MIDDLE].freeze()
        with pytest.raises(OSError, match="timed out"):
            await asyncio.to_thread(nodes[MIDDLE].ask, "/healthz")
        nodes[MIDDLE].thaw()
        assert (await asyncio.to_thread(nodes[MIDDLE].ask, "/varz"))["server_name"] == MIDDLE
        nodes[RIGHT].freeze()
        await asyncio.to_thread(nodes[RIGHT].stop)
        assert not nodes[RIGHT].is_running
        await apart.ready()
        nodes[RIGHT].start()
        await apart.ready()
        await whole([*nodes.values()], 10)


async def test_without_namespaces_servers_run_here_and_it_is_said_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with cluster(tmp_path, size=1, extra_places=("worker-0",), say=said.append) as alone:
        await alone.ready()
        assert alone.kind == "processes"
        assert alone.links is None
        assert alone.places["worker-0"].command("true") == ["true"]
        async with connected(alone.url) as connection:
            await made(connection, replicas=1)
            await published(connection, 3)
        assert num_messages(alone.nodes[LEFT], STREAM) == 3
    assert len(said) == 1
    assert said[0].startswith("nats-server runs on loopback, where no link can break: ")
    with pytest.raises(NotPermitted), cluster(tmp_path, kind="namespaces"):
        pass


async def test_servers_that_do_not_find_each_other_are_told_of_with_their_last_words(tmp_path: Path) -> None:
    with cluster(tmp_path, kind="processes") as three:
        three.nodes[LEFT].freeze()
        with pytest.raises(NotReady, match="--- left"):
            await three.ready(seconds=0.1)


def test_their_settings_are_those_of_ops_but_for_where_they_listen(tmp_path: Path) -> None:
    with cluster(tmp_path, size=1, kind="processes"):
        written = (tmp_path / LEFT / "limits.conf").read_text()
        assert written == (Path(__file__).parents[2] / "ops" / "nats" / "limits.conf").read_text()
        shared = (Path(__file__).parents[2] / "ops" / "nats" / "cluster" / "shared.conf").read_text()
        for line in (tmp_path / LEFT / "nats.conf").read_text().splitlines():
            if line.strip().startswith(("max_", "sync_")):
                assert line.strip() in shared
