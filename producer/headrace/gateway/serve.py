"""Runs a gateway: connects, listens, serves until it is told to stop, finishes what it has.

Knows Granian, the port and the order of ending. Does not know what is served.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server
from headrace_contracts.credentials import Credentials
from litestar.types import ASGIApp

from headrace.client import Client
from headrace.errors import ConnectionFailed, PortTaken
from headrace.gateway.app import build
from headrace.gateway.connection import watched
from headrace.gateway.fleet import Fleet
from headrace.gateway.keys import Keys
from headrace.gateway.limits import Limits
from headrace.gateway.metrics import Metrics

# Until a connection that says nothing is closed: longer than the minute after which balancers give theirs up.
_IDLE_MS = 75_000
_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """All that a gateway is told.

    Attributes:
        nats: URL of nats-server.
        access: who connects to it.
        host: address to listen on.
        port: to listen on; 0 takes a free one.
        limits: how much may be asked.
        keys: who may ask; None lets all in.
        drain_s: seconds for requests in flight once it is told to stop.
    """

    nats: str
    access: Credentials | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    limits: Limits = field(default_factory=Limits)
    keys: Keys | None = None
    drain_s: float = 30


async def serve(
    config: GatewayConfig,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    *,
    hurry: asyncio.Event | None = None,
    connect_s: float = 5,
) -> None:
    """Serve until `stop` is set, then finish what is in flight.

    Args:
        config: how.
        stop: ends it.
        on_ready: called with the URL once it listens.
        hurry: gives up what is in flight, once `stop` is set.
        connect_s: seconds for the connection to nats-server.

    Raises:
        ConnectionFailed: nats-server does not answer.
        PortTaken: it cannot listen there.
    """
    with _reserve(config.host, config.port) as reserved:
        client = await Client.connect(
            config.nats, timeout=connect_s, access=config.access, max_call_tokens=config.limits.max_tokens
        )
        metrics = Metrics()
        async with client, watched(client, metrics) as presences:
            fleet = Fleet(client, presences)
            address, port = reserved.getsockname()[:2]
            server = _server(build(fleet, metrics, config.limits, config.keys), config, address, port)
            listening = asyncio.Event()
            server.on_startup(listening.set)
            serving = asyncio.create_task(server.serve())
            await _first(serving, listening.wait())
            await asyncio.sleep(0)  # Granian's listener is made in the next turn of the loop
            reserved.close()
            shown = f"[{config.host}]" if ":" in config.host else config.host
            on_ready(f"http://{shown}:{port}")
            await _first(serving, stop.wait())
            fleet.is_stopping = True
            server.stop()  # type: ignore[no-untyped-call] # Granian's, without types
            await _wait(serving, hurry or asyncio.Event(), config.drain_s)
    # What is left was just given up with the client: time to say so.
    await asyncio.wait((serving,), timeout=_LAST_WORDS_S)


def _server(app: ASGIApp, config: GatewayConfig, address: str, port: int) -> Server:
    return Server(
        app,
        address=address,
        port=port,
        interface=Interfaces.ASGINL,
        # Not HTTP/2 beside it: telling them apart, Granian waits for ever for a connection that says nothing.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=_IDLE_MS),
        backpressure=config.limits.max_connections,
        websockets=False,
        log_level=LogLevels.error,  # it warns of being embedded, each time
        log_dictconfig={"handlers": {}, "loggers": {"_granian": {}}},  # it would write to standard output
    )


def _reserve(host: str, port: int) -> socket.socket:
    """Hold the port, bound but not listening, until Granian listens on it.

    Granian shares ports (SO_REUSEPORT), so by itself it would take a share of another gateway's requests.

    Raises:
        PortTaken: another program has it, or the address is not ours.
    """
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        reserved = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PortTaken(f"cannot listen on {host}: {error.strerror}") from error
    try:
        # Connections that ended a moment ago do not hold it.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(address)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError as error:
        reserved.close()
        raise PortTaken(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port, 0 takes a free one"
        ) from error
    return reserved


async def _wait(serving: "asyncio.Task[None]", hurry: asyncio.Event, timeout_s: float) -> None:
    """Wait until the server has ended, but no longer than either allows."""
    hurrying = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((serving, hurrying), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()


async def _first(serving: "asyncio.Task[None]", event: "Coroutine[Any, Any, object]") -> None:
    """Wait for the event, or raise what ended the server."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        serving.result()
        raise ConnectionFailed("the HTTP server ended by itself: its log says why")
