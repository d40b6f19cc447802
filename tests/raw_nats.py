"""Messages as no client library would write them, handed to a nats-server byte by byte."""

import asyncio

from headrace import local


async def publish(server: local.Server, *frames: bytes) -> None:
    """Say to the server what it is to pass on; returns once it has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()  # INFO
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + b"".join(frames) + b"PING\r\n")
    assert await reader.readline() == b"PONG\r\n"
    writer.close()
    await writer.wait_closed()


def frame(subject: bytes, headers: bytes, body: bytes) -> bytes:
    """A message as a publisher writes it, whatever is in its parts."""
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(headers), len(headers) + len(body), headers, body)
