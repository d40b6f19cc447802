"""What is in ops/nats runs as it stands: a cluster of three, over TLS, with access control; and what TLS refuses."""

import asyncio
import socket
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from headrace import AccessDenied, Client, ConnectionFailed, local
from headrace.fleet_users import FleetUsers
from headrace.local import server_binary
from headrace.reach import reached
from headrace_contracts import topology
from headrace_contracts.access import Scope
from headrace_contracts.api import api
from headrace_contracts.credentials import Credentials
from headrace_contracts.tls import Tls
from nats.errors import Error as NatsError

from .certificates import Authority
from .secured import AUTHORIZATION, configs, secured

NODES = (1, 2, 3)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


async def test_three_servers_make_a_cluster_that_places_shards_by_tag(tmp_path: Path) -> None:
    users = FleetUsers(tmp_path / "users")
    authority = Authority(tmp_path / "authority")
    users.add("ops", "operator", Scope(), authority.certificate)
    users.save()
    ports = free_ports(2 * len(NODES))
    clients, routes = ports[:3], ports[3:]
    with ExitStack() as stack:
        for node, port, route in zip(NODES, clients, routes, strict=True):
            etc = configs(tmp_path / f"node-{node}")
            (etc / "cluster" / AUTHORIZATION).write_text(users.authorization.read_text())
            tls = etc / "tls"
            signing = Authority(tls, "routes-ca") if node == 1 else None
            if signing is None:
                first = tmp_path / "node-1" / "etc" / "tls"
                tls.mkdir()
                for name in ("routes-ca.pem", "route.pem", "route-key.pem"):
                    (tls / name).write_bytes((first / name).read_bytes())
            else:
                signing.sign("route")
            for made, name in zip(authority.sign("server"), ("server.pem", "server-key.pem"), strict=True):
                (tls / name).write_bytes(made.read_bytes())
            flags = ("-a", "127.0.0.1", "-p", str(port), "-m", "-1", "--cluster", f"nats://127.0.0.1:{route}")
            others = ",".join(f"nats://127.0.0.1:{each}" for each in routes)
            config = str(etc / "cluster" / f"node-{node}.conf")
            log = stack.enter_context((tmp_path / f"log-{node}").open("wb"))
            server = subprocess.Popen(  # noqa: ASYNC220 - it takes a moment, and nothing else goes on here
                [server_binary(), "-c", config, *flags, "--routes", others], stderr=log, start_new_session=True
            )
            stack.callback(server.wait)
            stack.callback(server.kill)
        access = users.access_file("ops")
        url = ",".join(f"tls://127.0.0.1:{port}" for port in clients)
        wanted = topology.results_stream(replicas=3).to_api() | {"placement": {"tags": []}}
        online = topology.online_stream("m", 1, 0, max_msg_size=1000, tag="shard-1").to_api()
        async with asyncio.timeout(40):
            found = [await created(url, access, each) for each in (wanted, online)]
    assert {replica["name"] for replica in found[0]["replicas"]} | {found[0]["leader"]} == {f"nats-{n}" for n in NODES}
    assert found[1]["leader"] == "nats-2"


async def created(url: str, access: Path, config: dict[str, object]) -> dict[str, Any]:
    """Where a NATS stream lies, once the cluster is ready to make it."""
    while True:
        try:
            who = Credentials.read(access)
            async with reached(url, name="test", client_id="t", timeout_s=5, access=who) as (nats, _):
                info = await api(nats, f"STREAM.CREATE.{config['name']}", config)
                assert info is not None
                return dict(info["cluster"])
        except (NatsError, ConnectionFailed, TimeoutError):
            await asyncio.sleep(0.2)  # servers tell nobody when they have found each other


async def test_tls_that_does_not_come_about_says_what_to_do(tmp_path: Path) -> None:
    with secured(tmp_path) as made:
        good = made.credentials("query")
        cases = [
            (replace(good, tls=None), made.url, r"not known who signed .*name theirs as ca under \[tls\]"),
            (good, made.url.replace("127.0.0.1", "localhost"), r"another host's .*use a name that the certificate has"),
        ]
        for access, url, text in cases:
            with pytest.raises(ConnectionFailed, match=text):
                await Client.connect(url, access=access, timeout=5)


async def test_a_server_without_tls_is_told_no_password_where_tls_was_asked_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    access = Credentials(name="q", user="miller", password="race", tls=Tls(ca=authority.certificate))  # noqa: S106
    with local._server(-1, "--user", "miller", "--pass", "race") as server:
        by_scheme = server.url.replace("nats://", "tls://miller:race@")
        for url, who in ((server.url, access), (by_scheme, None)):
            with pytest.raises(ConnectionFailed, match="plain text where TLS was asked for"):
                await Client.connect(url, access=who, timeout=5)
        with pytest.raises(AccessDenied, match="refuses these credentials") as caught:
            await Client.connect(server.url, access=replace(access, password="hush", tls=None))  # noqa: S106
        assert "hush" not in str(caught.value)
        async with await Client.connect(server.url, access=replace(access, tls=None)) as client:
            assert client.is_connected


async def test_an_expired_certificate_and_one_that_is_missing_are_told_apart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    old, old_key = authority.sign_expired("old")
    fine, fine_key = authority.sign("fine")
    access = Credentials(name="q", tls=Tls(ca=authority.certificate))
    while time.time() < old.stat().st_mtime + 1.5:  # noqa: ASYNC110 - only time makes it expire
        await asyncio.sleep(0.1)
    with (
        local._server(-1, "--tls", "--tlscert", str(old), "--tlskey", str(old_key)) as server,
        pytest.raises(ConnectionFailed, match=r"its certificate has expired .*renew it"),
    ):
        await Client.connect(server.url, access=access, timeout=5)
    signed = ("--tlsverify", "--tlscacert", str(authority.certificate))
    flags = ("--tlscert", str(fine), "--tlskey", str(fine_key), *signed)
    with local._server(-1, *flags) as server:
        with pytest.raises(ConnectionFailed, match=r"asks for a certificate of ours: give cert and key under \[tls\]"):
            await Client.connect(server.url, access=access, timeout=5)
        shown = replace(access, tls=replace(_tls(access), cert=fine, key=fine_key))
        async with await Client.connect(server.url, access=shown) as client:
            assert client.is_connected


def _tls(access: Credentials) -> Tls:
    assert access.tls is not None
    return access.tls
