"""The worker's connection to nats-server.

Knows which servers will do, and that the last acks must be out before the connection is closed. How to connect is in
contracts, connection.py; NATS streams are in provision.py.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace_contracts import CredentialsError, connection
from headrace_contracts.api import in_words
from headrace_contracts.connection import Link
from headrace_contracts.credentials import Credentials
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace_workers.errors import AccessRefused, ServerUnfit, ServerUnreachable
from headrace_workers.leaders import led

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0
# A worker mostly listens, so nothing that it waits for in vain would tell it that its server is gone.
_DOUBT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Broker:
    """A connection, and whether it stands."""

    nats: NatsClient
    link: Link


@asynccontextmanager
async def connected(url: str, worker: str, access: Credentials | None = None) -> AsyncIterator[Broker]:
    """Connect to a server that will do; at the end, send what is still to be sent and close.

    Args:
        url: one URL, or several with commas between.
        worker: this worker's name, shown in the server's monitoring and part of its inboxes.
        access: who connects; None takes what stands in the URL, or nothing.

    Raises:
        ServerUnreachable: nothing answers.
        AccessRefused: it does not take the credentials, or does not let their user do what a worker does.
        ServerUnfit: it is too old or runs without JetStream.
    """
    try:
        nats, link = await connection.connect(
            url,
            name=f"headrace worker {worker}",
            inbox=connection.inbox_of(worker, access),
            timeout_s=_CONNECT_TIMEOUT_S,
            access=access,
            on_error=lambda error: logger.debug("nats: %s", in_words(error)),
        )
    except (connection.Refused, CredentialsError) as error:
        raise AccessRefused(str(error)) from error
    except connection.TlsFailed as error:
        raise ServerUnreachable(str(error)) from error
    except connection.Unreachable as error:
        raise ServerUnreachable(f"{error}: start one, or name another with --nats") from error
    except connection.ServerTooOld as error:
        raise ServerUnfit(str(error)) from error
    doubting = asyncio.create_task(_doubt(link))
    try:
        await _check_jetstream(nats)
        yield Broker(nats, link)
    except NotAllowed as error:
        raise AccessRefused(str(error)) from error
    finally:
        doubting.cancel()
        # A broker that is gone redelivers what it was not told.
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            await nats.flush(timeout=2)
        await connection.close(nats)


async def _doubt(link: Link) -> None:
    """See all the time whether the server answers."""
    while True:
        link.doubt()
        await asyncio.sleep(_DOUBT_EVERY_S)


async def _check_jetstream(nats: NatsClient) -> None:
    ask = nats.jetstream().account_info
    try:
        # Of a cluster another server may have it, and just not be chosen yet.
        await (led(ask) if connection.is_of_cluster(nats) else ask())
    except NotAllowed:
        raise
    except (NatsError, TimeoutError) as error:
        raise ServerUnfit(
            f"nats-server has no JetStream for this account ({in_words(error)}): start it with -js"
        ) from error
