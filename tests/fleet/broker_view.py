"""What the broker itself says, through its raw API."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from headrace_contracts import topology
from nats.aio.client import Client as NatsClient


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[NatsClient]:
    connection = await nats.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def api(connection: NatsClient, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = await connection.request(f"$JS.API.{call}", json.dumps(body).encode() if body else b"", timeout=5)
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
