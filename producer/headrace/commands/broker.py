"""A connection to nats-server for subcommands that ask the broker itself, rather than the fleet.

Knows how to run them on an event loop. Does not know what they ask.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace_contracts import connection, subjects
from nats.aio.client import Client as NatsClient

from headrace.commands.flags import CONNECT_S
from headrace.errors import ConnectionFailed

T = TypeVar("T")


def ask(url: str, question: Callable[[NatsClient], Awaitable[T]]) -> T:
    """Connect, ask, close, and return the answer.

    Raises:
        ConnectionFailed: no nats-server answers, or one that is too old.
    """
    return asyncio.run(_ask(url, question))


async def _ask(url: str, question: Callable[[NatsClient], Awaitable[T]]) -> T:
    try:
        nats, _ = await connection.connect(
            url, name="headrace command", inbox=subjects.inbox(secrets.token_hex(8)), timeout_s=CONNECT_S
        )
    except connection.Unreachable as error:
        raise ConnectionFailed(f"{error}: start one with `headrace up`, or check the URL") from error
    except connection.ServerTooOld as error:
        raise ConnectionFailed(str(error)) from error
    try:
        return await question(nats)
    finally:
        await connection.close(nats)
