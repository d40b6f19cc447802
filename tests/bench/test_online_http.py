"""The HTTP client of the benchmark, against a server that answers over real connections."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from online import http_traffic
from online.http_traffic import Connection, HttpPlan, kind_of, read_head, request
from online.plan import Loop, When


@asynccontextmanager
async def server(seen: list[bytes], *, keep: bool = True) -> AsyncIterator[int]:
    """Answers each request with its own body, or with an empty object; notes a blank for each new connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(b"")
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = read_head(b"HTTP/1.1 200 \r\n" + head.partition(b"\r\n")[2])[1]
                body = await reader.readexactly(length) or b"{}"
                seen.append(head + body)
                last = b"" if keep else b"Connection: close\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (last, len(body), body))
                if not keep:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_a_connection_is_kept_for_the_next_request() -> None:
    seen: list[bytes] = []
    async with server(seen) as port:
        connection = Connection(port)
        assert await connection.ask(request("/v1/embeddings", '{"input": "ü"}')) == (200, '{"input": "ü"}'.encode())
        assert await connection.ask(request("/health/live", None)) == (200, b"{}")
        connection.close()
    assert [each.partition(b" HTTP")[0] for each in seen] == [b"", b"POST /v1/embeddings", b"GET /health/live"]


async def test_a_connection_that_the_server_closes_is_made_anew() -> None:
    seen: list[bytes] = []
    async with server(seen, keep=False) as port:
        connection = Connection(port)
        for _ in range(2):
            assert (await connection.ask(request("/", "{}")))[0] == 200
    assert seen.count(b"") == 2


async def test_each_caller_has_a_connection_of_its_own_and_all_calls_are_counted() -> None:
    seen: list[bytes] = []
    async with server(seen) as port:
        when = When(begin_s=time.perf_counter(), seconds=0.2)
        plan = HttpPlan(port=port, path="/", bodies=("[1]", "[2]"), loop=Loop(callers=4), when=when)
        ran = await http_traffic.run(plan)
    assert {call.kind for call in ran.calls} == {"answered"}
    assert ran.offered == len(ran.calls) == len(seen) - seen.count(b"")
    assert 1 <= seen.count(b"") <= 4
    assert {each[-3:] for each in seen if each} == {b"[1]", b"[2]"}


async def test_a_server_that_is_not_there_makes_calls_that_fail_and_say_why() -> None:
    async with server([]) as port:
        pass
    when = When(begin_s=time.perf_counter(), seconds=0.05)
    ran = await http_traffic.run(
        HttpPlan(port=port, path="/", bodies=(), loop=Loop(callers=1, pause_s=0.01), when=when)
    )
    assert {call.kind for call in ran.calls} <= {"failed"}
    assert all("refused" in error.lower() for error in ran.errors)


def test_heads_are_read_and_pieces_are_not() -> None:
    assert read_head(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nCONNECTION: Close\r\n\r\n") == (200, 12, False)
    assert read_head(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n\r\n") == (429, 0, True)
    with pytest.raises(ValueError, match="in pieces"):
        read_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_a_status_says_how_a_call_ended() -> None:
    assert kind_of(200, b"{}") == "answered"
    assert kind_of(429, b"") == kind_of(503, b"") == "refused"
    assert kind_of(504, b"") == "expired"
    with pytest.raises(RuntimeError, match="status 500: why"):
        kind_of(500, b"why")
