"""A nats-server that a test can take away and bring back, and connections that outlive that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from headrace import local
from headrace_contracts import connection
from nats.aio.client import Client as NatsClient


class Broker:
    """One nats-server of which there is one life after the other, on the same port with the same files."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._life = ExitStack()
        self._server = self._life.enter_context(local.server(store))

    @property
    def url(self) -> str:
        return self._server.url

    async def stop(self) -> None:
        await asyncio.to_thread(self._life.close)

    async def start(self) -> None:
        port = self._server.port
        self._server = await asyncio.to_thread(lambda: self._life.enter_context(local.server(self._store, port=port)))

    async def kill(self) -> None:
        """SIGKILL, so that nothing is put in order."""
        self._server.process.kill()
        await self.stop()


@asynccontextmanager
async def broker(store: Path) -> AsyncIterator[Broker]:
    running = Broker(store)
    try:
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def connections(url: str, number: int) -> AsyncIterator[list[NatsClient]]:
    """As many connections, each like a process's own."""
    async with AsyncExitStack() as stack:
        found = []
        for index in range(number):
            nats, _ = await connection.connect(url, name="test", inbox=f"hr.inbox.test{index}", timeout_s=5)
            stack.push_async_callback(connection.close, nats)
            found.append(nats)
        yield found
