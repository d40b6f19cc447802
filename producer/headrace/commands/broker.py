"""A connection to nats-server for subcommands that ask the broker itself, rather than the fleet.

Knows how to run them on an event loop. Does not know what they ask.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace_contracts.credentials import Credentials
from nats.aio.client import Client as NatsClient

from headrace.commands.flags import CONNECT_S
from headrace.reach import reached

T = TypeVar("T")


def ask(url: str, question: Callable[[NatsClient], Awaitable[T]], access: Credentials | None = None) -> T:
    """Connect, ask, close, and return the answer.

    Raises:
        AccessDenied: nats-server does not let this user in, or ask that.
        ConnectionFailed: no nats-server answers, or one that is too old.
    """
    return asyncio.run(_ask(url, question, access))


async def _ask(url: str, question: Callable[[NatsClient], Awaitable[T]], access: Credentials | None) -> T:
    client_id, name = secrets.token_hex(8), "headrace command"
    async with reached(url, name=name, client_id=client_id, timeout_s=CONNECT_S, access=access) as (nats, _):
        return await question(nats)
