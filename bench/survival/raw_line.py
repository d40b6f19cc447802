"""A connection to nats-server that is spoken to byte by byte, for what no client would write.

It knows enough of the protocol to be let in and to be kept. What is written it does not look at.
"""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

_CONNECT_S = 5.0
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"none","version":"0"}\r\nPING\r\n'


class RawLine:
    """One connection after the other: a server that is told nonsense closes."""

    def __init__(self, url: str) -> None:
        """Do not connect yet.

        Args:
            url: Of one nats-server, or several with commas between, of which the first is taken.
        """
        parts = urlsplit(url.split(",", maxsplit=1)[0])
        self._address = parts.hostname or "127.0.0.1", parts.port or 4222
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def write(self, content: bytes) -> None:
        """Write it, on a new connection if the last one is gone.

        Raises:
            OSError: The server is gone, or has gone by this.
            EOFError: It went while it let us in.
        """
        if self._writer is None or self._writer.is_closing():
            await self.close()
            async with asyncio.timeout(_CONNECT_S):
                self._writer = await self._opened()
        self._writer.write(content)
        await self._writer.drain()

    async def _opened(self) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(_CONNECT)
            # What is published before it has said so may be lost.
            await reader.readuntil(b"PONG\r\n")
        except BaseException:
            writer.close()
            raise
        self._hearing = asyncio.create_task(self._hear(reader, writer))
        return writer

    async def close(self) -> None:
        """End it."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        self._writer = self._hearing = None

    @staticmethod
    async def _hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer its PINGs until it closes."""
        try:
            with suppress(OSError, ValueError):  # it is gone; or a line has no end
                while line := await reader.readline():
                    if line.startswith(b"PING"):
                        writer.write(b"PONG\r\n")
        finally:
            writer.close()
