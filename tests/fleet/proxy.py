"""A TCP proxy before nats-server, so that a test can take a client's connection away piece by piece."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Passes everything on until it is told otherwise."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._is_mute = False

    @property
    def url(self) -> str:
        """Where clients find nats-server through it."""
        return f"nats://127.0.0.1:{self._port}"

    def mute(self) -> None:
        """Swallow what the server says from now on; it still hears."""
        self._is_mute = True

    async def cut(self) -> None:
        """Drop all connections and take no new ones."""
        self._listening.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving)

    async def mend(self) -> None:
        """Take connections, and pass everything on."""
        self._is_mute = False
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers |= {writer, to_server}
        await asyncio.gather(
            self._pass_on(reader, to_server, may_be_mute=False), self._pass_on(from_server, writer, may_be_mute=True)
        )
        self._writers -= {writer, to_server}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_be_mute: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if not (may_be_mute and self._is_mute):
                    writer.write(data)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def proxied(server_port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(server_port)
    await proxy.mend()
    try:
        yield proxy
    finally:
        await proxy.cut()
