"""How this package reaches nats-server, and what it says when it cannot.

Knows the errors of this side. Does not know what the connection is for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace_contracts import connection, subjects
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient

from headrace.errors import ConnectionFailed


async def reach(url: str, *, name: str, client_id: str, timeout_s: float) -> tuple[NatsClient, Link]:
    """Connect; whoever asks closes it by connection.close.

    Args:
        url: one URL, or several of one cluster with commas between.
        name: shown in the server's monitoring.
        client_id: a token, in the prefix of all its inboxes.
        timeout_s: for the first connection; a lost one is sought until it is closed.

    Raises:
        ConnectionFailed: nothing answers, or the server is too old.
    """
    try:
        return await connection.connect(url, name=name, inbox=subjects.inbox(client_id), timeout_s=timeout_s)
    except connection.Unreachable as error:
        raise ConnectionFailed(f"{error}: start one with `headrace up`, or check the URL") from error
    except connection.ServerTooOld as error:
        raise ConnectionFailed(str(error)) from error


@asynccontextmanager
async def reached(url: str, *, name: str, client_id: str, timeout_s: float) -> AsyncIterator[tuple[NatsClient, Link]]:
    """The same, closed when the context ends."""
    nats, link = await reach(url, name=name, client_id=client_id, timeout_s=timeout_s)
    try:
        yield nats, link
    finally:
        await connection.close(nats)
