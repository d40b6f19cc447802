"""Connecting: what is said when it does not work, and what is never said."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import psutil
import pytest
import uvloop
from headrace import local
from headrace_contracts.connection import Link, Unreachable, close, connect
from headrace_contracts.patient import Patient
from nats.aio.msg import Msg
from nats.errors import FlushTimeoutError

from ..waiting import until


async def attempt(url: str) -> None:
    await connect(url, name="test", inbox="hr.inbox.test", timeout_s=0.5)


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:4222", "nats://:4222", "nats://host:99999", "nats://host:port"])
async def test_what_is_no_url_of_a_server_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Unreachable, match="write nats://host:port"):
        await attempt(url)


async def test_a_server_that_does_not_answer_is_named_with_the_reason() -> None:
    with pytest.raises(Unreachable, match=r"at nats://127\.0\.0\.1:1 \(ConnectionRefusedError"):
        await attempt("nats://127.0.0.1:1")


async def test_what_takes_the_connection_and_says_nothing_is_told_apart() -> None:
    async with await asyncio.start_server(_say_nothing, "127.0.0.1") as mute:
        port = mute.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match=r"says nothing: it stands still, or its tls \{\} has handshake_first"):
            await attempt(f"nats://127.0.0.1:{port}")


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_who_is_cancelled_while_a_connection_is_refused_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    searching = asyncio.create_task(connect("nats://127.0.0.1:1", name="test", inbox="hr.inbox.test", timeout_s=1))
    num_tries = 0

    async def refuse(*_: object, **__: object) -> None:
        nonlocal num_tries
        num_tries += 1
        if num_tries == 1:
            searching.cancel()  # in the very moment in which the answer comes
        raise ConnectionRefusedError

    monkeypatch.setattr("asyncio.open_connection", refuse)
    await asyncio.wait((searching,))
    assert searching.cancelled()
    assert num_tries == 1


async def test_wrong_credentials_are_told_apart_and_not_repeated() -> None:
    with local._server(-1, "--user", "miller", "--pass", "race") as server:
        with pytest.raises(Unreachable, match="refuses these credentials") as caught:
            await attempt(f"nats://miller:secret@127.0.0.1:{server.port}")
        assert "secret" not in str(caught.value)
        nats, link = await connect(
            f"miller:race@127.0.0.1:{server.port}", name="test", inbox="hr.inbox.test", timeout_s=5
        )
        assert link.up.is_set()
        await nats.close()
        assert not link.up.is_set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_is_lost_can_be_closed_on_any_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def lose_and_close() -> None:
        with ExitStack() as life:
            server = life.enter_context(local.server())
            nats, link = await connect(server.url, name="test", inbox="hr.inbox.test", timeout_s=5)
            await asyncio.to_thread(life.close)
        await until(lambda: not link.up.is_set(), "the loss is seen")
        await nats.publish("hr.inbox.test.nobody", b"waits for a connection")
        await close(nats)
        assert nats.is_closed

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(lose_and_close())


async def test_a_server_that_answers_too_late_is_heard_all_the_same() -> None:
    with local.server() as server:
        nats, _ = await connect(server.url, name="test", inbox="hr.inbox.test", timeout_s=5)
        heard = await nats.subscribe("hr.inbox.test.word")
        await nats.flush()
        server.process.send_signal(signal.SIGSTOP)
        process = psutil.Process(server.process.pid)
        await until(lambda: process.status() == psutil.STATUS_STOPPED, "it stands still")
        try:
            with pytest.raises(FlushTimeoutError):
                await nats.flush(timeout=0.2)  # type: ignore[arg-type] # seconds; nats-py only waits for it
        finally:
            server.process.send_signal(signal.SIGCONT)
        await nats.publish("hr.inbox.test.word", b"after it went on")
        assert (await heard.next_msg(timeout=5)).data == b"after it went on"
        await close(nats)


async def test_who_is_cancelled_while_a_request_is_answered_is_cancelled(
    nats_server: local.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats, _ = await connect(nats_server.url, name="test", inbox="hr.inbox.test", timeout_s=5)
    wait_for, waiting = asyncio.wait_for, asyncio.Event()

    async def answered_then(future: "asyncio.Future[object]", timeout: float) -> object:
        """As asyncio's own before Python 3.12, when the answer comes in the moment of the cancelling."""
        waiting.set()
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return await wait_for(future, timeout)
        raise TimeoutError

    monkeypatch.setattr("nats.aio.client.asyncio.wait_for", answered_then)
    asking = asyncio.create_task(nats.request("$JS.API.INFO", timeout=5))
    await waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    monkeypatch.undo()
    assert (await nats.request("$JS.API.INFO", timeout=5)).data
    await close(nats)


async def test_a_publish_that_waits_for_its_buffer_to_empty_can_be_cancelled(nats_server: local.Server) -> None:
    nats, _ = await connect(nats_server.url, name="test", inbox="hr.inbox.test", timeout_s=5)

    async def publish_for_a_second() -> None:
        async with asyncio.timeout(1):
            while True:
                await nats.publish("nobody", bytes(1_000_000))

    nats_server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            await publish_for_a_second()
    finally:
        nats_server.process.send_signal(signal.SIGCONT)
        await close(nats)


@contextmanager
def _two_servers() -> Iterator[dict[int, local.Server]]:
    """Two that know nothing of each other, by port."""
    with local.server() as one, local.server() as other:
        yield {each.port: each for each in (one, other)}


@asynccontextmanager
async def _connected(*servers: local.Server) -> AsyncIterator[tuple[Patient, Link]]:
    url = ",".join(each.url for each in servers)
    nats, link = await connect(url, name="test", inbox="hr.inbox.test", timeout_s=5)
    assert isinstance(nats, Patient)
    try:
        yield nats, link
    finally:
        await close(nats)


def _port(nats: Patient) -> int:
    assert nats.connected_url is not None
    return int(nats.connected_url.port or 0)


async def test_a_server_that_stands_still_is_left_for_another_when_it_is_doubted() -> None:
    with _two_servers() as servers:
        async with _connected(*servers.values()) as (nats, link):
            frozen = servers[_port(nats)]
            frozen.process.send_signal(signal.SIGSTOP)
            try:
                writer = nats._transport._io_writer  # type: ignore[union-attr] # of a connection that stands
                # It takes in nothing any more: closing this connection politely would wait for it.
                while not writer.transport.get_write_buffer_size():
                    writer.write(b"PUB nobody 1000000\r\n" + bytes(1_000_000) + b"\r\n")
                    await asyncio.sleep(0)
                went_up = asyncio.Event()
                link.on_up = went_up.set
                link.doubt()
                await asyncio.wait_for(went_up.wait(), 20)
                assert nats.is_connected
                assert _port(nats) != frozen.port
            finally:
                frozen.process.send_signal(signal.SIGCONT)


async def test_a_server_that_answers_is_not_left() -> None:
    with _two_servers() as servers:
        async with _connected(*servers.values()) as (nats, link):
            losses: list[str] = []
            link.on_down = lambda: losses.append("it answered")
            before = nats._pongs_received
            for num_asked in range(1, 4):
                link.doubt()
                await until(lambda num=num_asked: nats._pongs_received == before + num, "it was asked")  # type: ignore[misc] # of a default
            await nats.flush()
            assert not losses


async def test_where_there_is_no_other_server_nobody_leaves() -> None:
    with local.server() as server:
        async with _connected(server) as (nats, link):
            losses: list[str] = []
            link.on_down = lambda: losses.append("there is no other")
            pongs = nats._pongs_received
            link.doubt()
            await nats.flush()
            assert nats._pongs_received == pongs + 1, "it was not even asked"
            assert not losses


async def test_a_server_that_was_left_is_the_last_to_be_tried_again() -> None:
    with _two_servers() as servers:
        async with _connected(*servers.values()) as (nats, link):
            for _ in range(6):
                before, went_up = _port(nats), asyncio.Event()
                link.on_up = went_up.set
                await nats.leave()
                await asyncio.wait_for(went_up.wait(), 20)
                assert _port(nats) != before


def headed(block: bytes, subject: bytes = b"there.x") -> bytes:
    return b"HPUB " + subject + b" %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block)


@pytest.mark.parametrize(
    "line",
    [
        b"PUB there.\xff 1\r\nx\r\n",
        b"PUB there.x \xff 1\r\nx\r\n",
        b"PUB there.a\x0bb 1\r\nx\r\n",
        b"PUB there.a\x0c7 b\x0b7 1\r\nx\r\n",
        headed(b"NATS/1.0\r\nA: b\r\n\r\n", subject=b"there.\x0c"),
        headed(b"NATS/1.0"),
        headed(b"x"),
        headed(b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        headed(b"NATS/1.0 409 \xff\r\n\r\n"),
        headed(b"NATS/1.0\r\n\xff\xfe: \xff\r\n\r\n"),
    ],
)
async def test_what_cannot_be_made_text_of_is_heard_and_so_is_what_comes_after_it(
    nats_server: local.Server, line: bytes
) -> None:
    nats, _ = await connect(nats_server.url, name="test", inbox="hr.inbox.test", timeout_s=5)
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    await nats.subscribe("there.>", cb=hear)
    await nats.flush()
    reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
    writer.write(b'CONNECT {"headers":true,"verbose":false}\r\nPING\r\n')
    await reader.readuntil(b"PONG\r\n")
    writer.write(line + b"PUB there.next 4\r\nnext\r\n")
    await until(lambda: b"next" in heard, "the next one is heard", seconds=5)
    assert heard == [b"x", b"next"]
    assert nats.stats["reconnects"] == 0
    writer.close()
    await writer.wait_closed()
    await close(nats)
