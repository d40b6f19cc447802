"""Whether the connection stands can be seen and waited for, while nats-server comes and goes."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from headrace import Client, ConnectionFailed, DeadlineExceeded, InputError, SyncClient, local
from headrace_engine import Engine

from ..waiting import until
from .harness import brisk, running


async def test_a_client_shows_a_restart_of_the_server_and_those_who_wait_live_through_it(
    tmp_path: Path, minilm: Engine
) -> None:
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path))
        async with running(minilm, brisk(server.url)), await Client.connect(server.url) as client:
            await client.wait_connected()
            assert (client.is_connected, client.state) == (True, "connected")
            await client.embed("the model is known now")
            await asyncio.to_thread(first_life.close)
            await until(lambda: client.state == "reconnecting", "the loss is seen")
            assert not client.is_connected
            with pytest.raises(ConnectionFailed, match=r"no nats-server answered within 0\.1 s: see whether it runs"):
                await client.wait_connected(timeout=0.1)
            waiting = asyncio.create_task(client.wait_connected(timeout=None))
            asked = asyncio.create_task(client.embed("asked while nobody was there"))
            await asyncio.to_thread(lambda: second_life.enter_context(local.server(tmp_path, port=server.port)))
            await waiting
            assert client.state == "connected"
            assert (await asked).shape == (384,)
    assert (client.is_connected, client.state) == (False, "closed")


async def test_closing_a_client_ends_the_wait_for_its_connection(tmp_path: Path) -> None:
    with ExitStack() as life:
        server = life.enter_context(local.server(tmp_path))
        client = await Client.connect(server.url)
        await asyncio.to_thread(life.close)
        await until(lambda: client.state == "reconnecting", "the loss is seen")
        waiting = asyncio.create_task(client.wait_connected())
        await until(lambda: bool(client._link.up._waiters), "it waits")
        await client.close()
        for wait in (waiting, client.wait_connected()):
            with pytest.raises(ConnectionFailed, match="the client is closed"):
                async with asyncio.timeout(5):
                    await wait


async def test_a_first_call_that_finds_no_server_says_so(tmp_path: Path) -> None:
    with ExitStack() as life:
        server = life.enter_context(local.server(tmp_path))
        async with await Client.connect(server.url) as client:
            await asyncio.to_thread(life.close)
            await until(lambda: client.state == "reconnecting", "the loss is seen")
            with pytest.raises(DeadlineExceeded, match="the connection to nats-server was lost"):
                await client.embed("text", timeout=0.1)


@pytest.mark.parametrize("timeout", [0, -1, "5", float("nan")])
async def test_a_time_that_is_none_is_refused(client: Client, timeout: object) -> None:
    with pytest.raises(InputError, match="timeout is"):
        await client.wait_connected(timeout)  # type: ignore[arg-type]


def test_the_sync_client_shows_the_same(tmp_path: Path) -> None:
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path))
        with SyncClient(server.url) as client:
            client.wait_connected()
            assert (client.is_connected, client.state) == (True, "connected")
            first_life.close()
            asyncio.run(until(lambda: client.state == "reconnecting", "the loss is seen"))
            with pytest.raises(ConnectionFailed, match=r"within 0\.1 s"):
                client.wait_connected(timeout=0.1)
            assert (client.is_connected, client.state) == (False, "reconnecting")
            second_life.enter_context(local.server(tmp_path, port=server.port))
            client.wait_connected(timeout=None)
            assert client.state == "connected"
        assert (client.is_connected, client.state) == (False, "closed")
        with pytest.raises(ConnectionFailed):
            client.wait_connected()
