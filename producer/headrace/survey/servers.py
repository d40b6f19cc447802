"""What servers of the broker say of themselves on their monitoring ports.

Knows enough of HTTP, bounded in time and size, and the page /varz
(https://docs.nats.io/running-a-nats-service/nats_admin/monitoring).
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headrace.errors import InputError

_TIMEOUT_S = 2.0
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server of the broker.

    Attributes:
        address: host and port of its monitoring.
        problem: why it could not be asked; all else is 0 then, and None where it answered.
        cpu: cores that it uses.
        memory_bytes: that it takes.
        connections: of clients.
        slow_consumers: connections that it has closed since it started because they did not read.
        in_messages: received since it started.
        out_messages: sent since it started.
        in_bytes: received since it started.
        out_bytes: sent since it started.
        uptime_s: seconds since it started.
    """

    address: str
    problem: str | None = None
    cpu: float = 0
    memory_bytes: int = 0
    connections: int = 0
    slow_consumers: int = 0
    in_messages: int = 0
    out_messages: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    uptime_s: float = 0


def monitor_urls(spelt: str) -> tuple[str, ...]:
    """The URLs of monitoring ports, with commas between.

    Raises:
        InputError: one of them is none.
    """
    urls = tuple(part.strip().rstrip("/") for part in spelt.split(",") if part.strip())
    for url in urls:
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in url
        except ValueError:
            is_good = False
        if not is_good:
            raise InputError(f"{url!r} is no URL of a nats-server's monitoring: write http://host:8222")
    return urls


async def read_servers(urls: Sequence[str]) -> tuple[Server, ...]:
    """Ask all of them at a time; those that do not answer within two seconds say so."""
    return tuple(await asyncio.gather(*map(_read, urls)))


async def _read(url: str) -> Server:
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return _server(parts.netloc, json.loads(await _page(parts, "/varz")))
    except TimeoutError:
        return Server(address=parts.netloc, problem=f"no answer within {_TIMEOUT_S:g} s")
    except (OSError, ValueError, KeyError, TypeError, EOFError, asyncio.LimitOverrunError) as error:
        return Server(address=parts.netloc, problem=f"{type(error).__name__}: {error}")


async def _page(parts: SplitResult, path: str) -> bytes:
    """One page by HTTP/1.0, whose body ends with the connection. A thread of http.client could not be called off.

    Raises:
        OSError: the server cannot be reached.
        ValueError: it answers with an error, or with more than a page may have.
    """
    is_safe = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if is_safe else 80), ssl=is_safe or None, limit=_MOST_BYTES
    )
    try:
        writer.write(f"GET {parts.path}{path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise ValueError(f"it answers {status!r:.80}")
        await reader.readuntil(b"\r\n\r\n")
        body = bytearray()
        while piece := await reader.read(_MOST_BYTES):
            body += piece
            if len(body) > _MOST_BYTES:
                raise ValueError(f"its page has more than {_MOST_BYTES} bytes")
        return bytes(body)
    finally:
        writer.close()


def _server(address: str, varz: Mapping[str, Any]) -> Server:
    up = datetime.fromisoformat(varz["now"]) - datetime.fromisoformat(varz["start"])
    return Server(
        address=address,
        cpu=varz["cpu"] / 100,
        memory_bytes=varz["mem"],
        connections=varz["connections"],
        slow_consumers=varz["slow_consumers"],
        in_messages=varz["in_msgs"],
        out_messages=varz["out_msgs"],
        in_bytes=varz["in_bytes"],
        out_bytes=varz["out_bytes"],
        uptime_s=up.total_seconds(),
    )
