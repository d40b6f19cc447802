"""A connection to nats-server for subcommands that ask the broker itself, rather than the fleet.

Knows how to run them on an event loop. Does not know what they ask.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nats.aio.client import Client as NatsClient

from headrace.commands.flags import CONNECT_S
from headrace.reach import reached

T = TypeVar("T")


def ask(url: str, question: Callable[[NatsClient], Awaitable[T]]) -> T:
    """Connect, ask, close, and return the answer.

    Raises:
        ConnectionFailed: no nats-server answers, or one that is too old.
    """
    return asyncio.run(_ask(url, question))


async def _ask(url: str, question: Callable[[NatsClient], Awaitable[T]]) -> T:
    client_id = secrets.token_hex(8)
    async with reached(url, name="headrace command", client_id=client_id, timeout_s=CONNECT_S) as (nats, _):
        return await question(nats)
