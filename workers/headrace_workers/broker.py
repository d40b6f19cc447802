"""The worker's connection to nats-server.

Knows how to connect so that a worker notices a dead link within seconds and never gives up on a live fleet, and which
servers will do. Does not know NATS streams: provision.py does.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headrace_contracts import subjects, topology
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from headrace_workers.errors import ServerUnfit, ServerUnreachable

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0


@asynccontextmanager
async def connected(url: str, worker: str, on_reconnect: Callable[[], Awaitable[None]]) -> AsyncIterator[NatsClient]:
    """Connect to a server that will do; at the end, send what is still to be sent and close.

    Args:
        url: one URL, or several with commas between.
        worker: this worker's name, shown in the server's monitoring and part of its inboxes.
        on_reconnect: awaited after each reconnection.

    Raises:
        ServerUnreachable: nothing answers.
        ServerUnfit: it is too old or runs without JetStream.
    """
    client = await _connect(url, worker, on_reconnect)
    try:
        await _check(client)
        yield client
    finally:
        # The last acks must be out; a broker that is gone redelivers instead.
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            await client.flush(timeout=2)
        with contextlib.suppress(OSError):
            await client.close()


async def _connect(url: str, worker: str, on_reconnect: Callable[[], Awaitable[None]]) -> NatsClient:
    client = NatsClient()
    last_error: Exception | None = None

    async def reconnected() -> None:
        logger.info("reconnected to nats-server")
        await on_reconnect()

    async def disconnected() -> None:
        logger.info("disconnected from nats-server")

    async def failed(error: Exception) -> None:
        nonlocal last_error
        if repr(error) != repr(last_error):  # once, not at each attempt to reconnect
            logger.info("nats: %r", error)
        last_error = error

    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await client.connect(
                url.split(","),
                name=f"headrace worker {worker}",
                inbox_prefix=subjects.inbox(worker),
                error_cb=failed,
                reconnected_cb=reconnected,
                disconnected_cb=disconnected,
                # nats-py's defaults take six minutes to notice a half-open link and give up after two.
                ping_interval=10,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type] # seconds; nats-py only sleeps for it
            )
    except (TimeoutError, OSError, NatsError, ValueError) as error:
        await client.close()
        raise ServerUnreachable(
            f"no nats-server answers at {url} ({last_error or error!r}): start one, or name another with --nats"
        ) from error
    return client


async def _check(client: NatsClient) -> None:
    found = client.connected_server_version
    version = f"{found.major}.{found.minor}.{found.patch}"
    if (found.major, found.minor) < topology.MIN_SERVER:
        least = ".".join(map(str, topology.MIN_SERVER))
        raise ServerUnfit(f"nats-server {version} is too old: headrace needs {least} or newer (prioritized pulls)")
    try:
        await client.jetstream().account_info()
    except (JetStreamError, NatsError, TimeoutError) as error:
        raise ServerUnfit(
            f"nats-server {version} has no JetStream for this account ({error}): start it with -js"
        ) from error
