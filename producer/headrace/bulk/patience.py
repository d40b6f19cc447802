"""Asks nats-server again and again, while it is away, not ready, or choosing leaders.

Knows which errors pass by themselves. Does not know what is asked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace_contracts.api import in_words
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.errors import ConnectionClosedError, ConnectionDrainingError, ConnectionReconnectingError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError, BucketNotFoundError

from headrace.errors import AccessDenied, BulkError, ConnectionFailed
from headrace.pauses import Pauses

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def patiently(nats: NatsClient, call: Callable[[], Awaitable[T]]) -> T:
    """Call again and again while nats-server is away or not ready; not while there is no connection at all.

    Raises:
        ConnectionFailed: the connection is closed for good.
        AccessDenied: this user may not.
        BulkError: the server refuses.
    """
    pauses, level = Pauses(), logging.WARNING
    while True:
        try:
            if nats.is_reconnecting:
                raise ConnectionReconnectingError  # nats-py would keep what is sent, and send it all at once later
            return await call()
        except BucketNotFoundError:
            raise
        except NotAllowed as error:
            raise AccessDenied(str(error)) from error
        except (ConnectionClosedError, ConnectionDrainingError) as error:
            raise ConnectionFailed("the connection to nats-server was closed: open a new one") from error
        except (BadRequestError, MaxPayloadError) as error:
            raise BulkError(f"nats-server refuses what a job asks of it: {error}") from error
        except (NatsError, OSError) as error:
            logger.log(level, "waiting for nats-server to answer: %s", in_words(error))
            level = logging.DEBUG
        # No event tells that JetStream is ready again, that a full server has room, or that an answer got lost.
        await asyncio.sleep(pauses.take_s())
