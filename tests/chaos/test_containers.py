"""A cluster whose servers are containers, with networks of their own for clients and for each two servers."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from survival import faults, trial
from survival.breakage import breakage
from survival.cluster import NAMES, Cluster, cluster
from survival.fleet import Size, fleet
from survival.history import RESULT
from survival.node import Node, num_messages
from survival.place import NotPermitted
from survival.possible import possible

from ..fleet.broker_view import connected
from ..ops import docker, packages
from ..waiting import until
from .served import MODEL

pytest.importorskip("testcontainers")

STREAM = "WHEEL"
SEED, SECONDS = 0, 15
# What is done to a container otherwise than to a process.
KINDS: tuple[faults.Kind, ...] = (
    *("node killed", "node restarted", "node frozen", "node disk full", "node store truncated"),
    *("link of a node cut", "link lossy", "link slow", "route cut"),
)
LEFT, MIDDLE, RIGHT = NAMES


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """A Docker daemon that nobody else uses, which its clients find by the environment."""
    missing = [name for name in ("dockerd", "docker") if packages.find(name) is None]
    if missing:
        pytest.skip(f"not here: {', '.join(missing)}")
    try:
        with docker.docker() as running, pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", running.environment["DOCKER_HOST"])
            yield
    except docker.CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def three(
    engine: None,  # noqa: ARG001 - it runs, and its clients find it
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("containers"), kind="containers", extra_places=("caller-0",)) as made:
        yield made


@pytest.fixture
async def servers(three: Cluster) -> Cluster:
    """With a NATS stream that is empty."""
    await three.ready()
    async with connected(three.url) as connection:
        await api(connection, f"STREAM.DELETE.{STREAM}")
        config = {"name": STREAM, "subjects": ["wheel"], "num_replicas": 3, "storage": "file"}
        async with asyncio.timeout(30):
            while True:
                with suppress(NatsError):  # who was isolated a moment ago may count as offline yet
                    assert await api(connection, f"STREAM.CREATE.{STREAM}", config)
                    return three
                await asyncio.sleep(0.1)


async def published(connection: NatsClient, numbers: range) -> None:
    """Each once, though one may have to be said again, such as when who leads is gone."""
    async with asyncio.timeout(30):
        for number in numbers:
            is_stored = False
            while not is_stored:
                with suppress(NatsError):
                    headers = {"Nats-Msg-Id": str(number)}
                    await connection.jetstream().publish("wheel", b"", timeout=1, headers=headers)
                    is_stored = True


def speaks(node: Node) -> bool:
    try:
        return bool(node.ask("/varz"))
    except OSError:
        return False


async def whole(servers: Cluster, num: int) -> None:
    """Wait until all have so many messages."""
    nodes = servers.nodes.values()
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError, KeyError):
                if {await asyncio.to_thread(num_messages, node, STREAM) for node in nodes} == {num}:
                    return
            await asyncio.sleep(0.05)


async def test_clients_and_routes_have_networks_of_their_own(servers: Cluster) -> None:
    assert servers.kind == "containers"
    assert servers.places["caller-0"].namespace is None, "clients are on this machine, which reaches all"
    for node in servers.nodes.values():
        routes = {route["remote_name"]: route["ip"] for route in node.ask("/routez")["routes"]}
        assert sorted([node.name, *routes]) == sorted(NAMES)
        for other, address in routes.items():
            own = servers.nodes[other].place.addresses
            assert address in own[1:], "where clients are not"
    addresses = [address for node in servers.nodes.values() for address in node.place.addresses]
    assert len({address.rpartition(".")[0] + str(int(address.rpartition(".")[2]) // 16) for address in addresses}) == 6


async def test_one_that_is_isolated_stays_so_though_it_is_started_anew(servers: Cluster) -> None:
    assert servers.links is not None
    others = ",".join(node.url for node in servers.nodes.values() if node.name != MIDDLE)
    servers.links.isolate(MIDDLE)
    async with connected(others) as connection:
        await published(connection, range(10))
        await asyncio.to_thread(servers.nodes[MIDDLE].kill)
        assert not servers.nodes[MIDDLE].is_running
        await asyncio.to_thread(servers.nodes[MIDDLE].start)
        await published(connection, range(10, 20))
        await until(lambda: speaks(servers.nodes[MIDDLE]), "it has started")
        assert not servers.nodes[MIDDLE].ask("/routez")["routes"]
        servers.links.mend()
        await servers.ready()
        await whole(servers, 20)


async def test_all_are_killed_stopped_and_frozen_and_keep_what_they_had_and_where_they_were(servers: Cluster) -> None:
    nodes = servers.nodes
    before = {name: (node.pid, node.url) for name, node in nodes.items()}
    async with connected(servers.url) as connection:
        await published(connection, range(10))
    nodes[LEFT].freeze()
    nodes[LEFT].freeze()
    assert nodes[LEFT].is_running
    with pytest.raises(OSError, match="timed out"):
        await asyncio.to_thread(nodes[LEFT].ask, "/healthz")
    await asyncio.to_thread(nodes[LEFT].stop)
    nodes[MIDDLE].freeze()
    await asyncio.to_thread(nodes[MIDDLE].kill)
    await asyncio.to_thread(nodes[RIGHT].kill)
    for node in nodes.values():
        assert not node.is_running
        with pytest.raises(RuntimeError, match="is down"):
            _ = node.pid
        node.thaw()
        node.kill()
        node.stop()
        node.start()
    await servers.ready()
    await whole(servers, 10)
    assert {name: node.url for name, node in nodes.items()} == {name: url for name, (_, url) in before.items()}
    assert all(node.pid != before[name][0] for name, node in nodes.items())
    assert nodes[LEFT].log.count("Server is ready") == 2


async def test_where_callers_and_workers_are_here_no_link_of_theirs_is_in_the_plan(
    three: Cluster, tmp_path: Path
) -> None:
    size = Size(rows=0, workers=0, producers=0, callers=1)
    with fleet(three, MODEL, size, 0, tmp_path) as made:
        links = {kind for kind in possible(made) if kind.startswith(("link", "route"))}
        assert links == {"link of a node cut", "link lossy", "link slow", "route cut", "route cut one way"}
        for which in range(5):
            assert breakage(faults.Fault("link slow", 0, 1, which), made).of == {"links"}


@pytest.mark.timeout(400)  # as trials in namespaces
@pytest.mark.usefixtures("engine")
async def test_a_trial_on_containers_holds(tmp_path: Path) -> None:
    size = Size(kind="containers", rows=3000, rows_per_s=600)
    found = await trial.run(
        SEED, model=MODEL, seconds=SECONDS, size=size, work=tmp_path, say=lambda _: None, kinds=KINDS
    )
    assert found.violations == ()
    assert (found.kind, found.servers) == ("containers", 3)
    assert found.calls[RESULT] > 0
    assert found.faults.keys() == {fault.kind for fault in faults.plan(SEED, SECONDS, KINDS)}


# Docker's client leaves it to others to close a socket that it could not connect.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_without_an_engine_it_is_said_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    with pytest.raises(NotPermitted, match="Docker"), cluster(tmp_path, kind="containers"):
        pass
    gc.collect()
