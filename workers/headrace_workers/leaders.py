"""Asks again what the broker cannot say while its servers choose a leader, of all or of one NATS stream.

Knows which answers pass by themselves: a NATS stream of several copies has no leader for a moment after it was made,
and for some seconds after a server was lost; one whose server is gone is back with it. Does not know what is asked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace_contracts.api import in_words
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

logger = logging.getLogger(__name__)

# Elections take 4 to 9 s (nats-server, raft.go), and who has lost one waits for the next.
_PATIENCE_S = 20.0
_PAUSE_S = 0.25
# Codes of a NATS stream, and of a consumer, of which all servers are gone (nats-server, errors.json).
_OFFLINE = frozenset({10118, 10119})
# No server may have it; the text says why each of them may not, one of which may be that it is away.
_NO_PEERS, _AWAY = 10005, "peer offline"

T = TypeVar("T")


def passes(error: BaseException) -> bool:
    """Whether it says that a leader is missing, or a server: that passes by itself, if not always soon."""
    if isinstance(error, APIError):
        if error.err_code == _NO_PEERS:
            return _AWAY in (error.description or "")
        if error.err_code in _OFFLINE:
            return True
    return isinstance(error, (NatsTimeoutError, NoStreamResponseError, ServiceUnavailableError))


async def led(ask: Callable[[], Awaitable[T]]) -> T:
    """What it gives once there are leaders; it is called anew each time.

    Raises:
        nats.errors.Error: what it raises, if that does not pass, or not for long.
    """
    loop = asyncio.get_running_loop()
    until_s, level = loop.time() + _PATIENCE_S, logging.WARNING
    while True:
        try:
            return await ask()
        except NatsError as error:
            if not passes(error) or loop.time() > until_s:
                raise
            logger.log(level, "the broker cannot say yet what the fleet needs, and is asked again: %s", in_words(error))
            level = logging.DEBUG
        await asyncio.sleep(_PAUSE_S)
