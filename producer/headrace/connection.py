"""The client's connection to nats-server.

Knows how to connect so that a dead link is noticed within seconds and a lost one is sought for ever. Does not know what
travels over it.
"""

import asyncio
from collections.abc import Callable

from headrace_contracts import subjects, topology
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.errors import ConnectionFailed


class Link:
    """Whether the connection stands now, and who wants to know when it was made anew."""

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.on_reconnect: Callable[[], None] = lambda: None

    async def went_up(self) -> None:
        """nats-py reconnected."""
        self.up.set()
        self.on_reconnect()

    async def went_down(self) -> None:
        """nats-py lost the connection."""
        self.up.clear()


async def connect(url: str, client_id: str, timeout_s: float) -> tuple[NatsClient, Link]:
    """Connect.

    Args:
        url: one URL, or several with commas between.
        client_id: unique name, part of the client's inboxes.
        timeout_s: for the first connection; a lost one is sought until the client is closed.

    Raises:
        ConnectionFailed: nothing answers, or the server is too old.
    """
    nats, link = NatsClient(), Link()

    last_error: Exception | None = None

    async def remember(error: Exception) -> None:
        """Errors surface in the calls that they concern; the last one tells why the first connection failed."""
        nonlocal last_error
        last_error = error

    try:
        async with asyncio.timeout(timeout_s):
            await nats.connect(
                url.split(","),
                name="headrace client",
                inbox_prefix=subjects.inbox(client_id),
                error_cb=remember,
                reconnected_cb=link.went_up,
                disconnected_cb=link.went_down,
                ping_interval=10,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type] # seconds; nats-py only sleeps for it
            )
    except (TimeoutError, OSError, NatsError, ValueError) as error:
        await nats.close()
        raise ConnectionFailed(
            f"no nats-server answers at {url} ({last_error or error!r}): start one with `headrace up`, or check the URL"
        ) from error
    found = nats.connected_server_version
    if (found.major, found.minor) < topology.MIN_SERVER:
        await nats.close()
        least = ".".join(map(str, topology.MIN_SERVER))
        raise ConnectionFailed(
            f"nats-server {found.major}.{found.minor} at {url} is too old: {least} or newer is needed"
        )
    link.up.set()
    return nats, link
