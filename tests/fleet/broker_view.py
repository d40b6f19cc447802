"""What the broker itself says, through its raw API."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
from headrace_contracts import topology
from nats.aio.client import Client as NatsClient


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[NatsClient]:
    connection = await nats.connect(url.split(","))
    try:
        yield connection
    finally:
        await connection.close()


async def api(
    connection: NatsClient, call: str, body: dict[str, Any] | None = None, seconds: float = 5
) -> dict[str, Any]:
    answer = await connection.request(f"$JS.API.{call}", json.dumps(body).encode() if body else b"", timeout=seconds)
    return dict(json.loads(answer.data))


async def consumer(connection: NatsClient, stream: str) -> dict[str, Any]:
    return await api(connection, f"CONSUMER.INFO.{stream}.{topology.CONSUMER}")


async def num_messages(connection: NatsClient, stream: str) -> int:
    return int((await api(connection, f"STREAM.INFO.{stream}"))["state"]["messages"])


async def emptied(connection: NatsClient, stream: str, seconds: float = 20) -> None:
    """Wait until nothing is left in it: the broker deals with an ack some time after the reply."""
    async with asyncio.timeout(seconds):
        while await num_messages(connection, stream):  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)


async def max_bytes(connection: NatsClient, stream: str) -> int | None:
    """What it may hold; None while it is not there."""
    found = (await api(connection, f"STREAM.INFO.{stream}")).get("config")
    return None if found is None else int(found["max_bytes"])


async def limited(connection: NatsClient, stream: str, is_right: Callable[[int], bool], seconds: float = 20) -> int:
    """Wait until what it may hold is right, and return that."""
    async with asyncio.timeout(seconds):
        while (found := await max_bytes(connection, stream)) is None or not is_right(found):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    return found
