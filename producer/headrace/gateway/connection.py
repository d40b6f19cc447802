"""The gateway's connection to nats-server, watched: whether it stands, and which workers are heard over it.

Knows what the client of this package is made of, for one connection does for both. Does not know HTTP.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.client import Client
from headrace.gateway.metrics import Metrics
from headrace.survey.crew import LISTEN_S
from headrace.survey.presences import Presences

logger = logging.getLogger(__name__)


@asynccontextmanager
async def watched(client: Client, metrics: Metrics) -> AsyncIterator[Presences]:
    """Log and count the losses of the connection while the context lasts, and listen to workers.

    Args:
        client: whose connection it is.
        metrics: where they are counted.
    """
    nats, link = client._nats, client._link  # noqa: SLF001 - see the docstring of this file
    before = link.on_up

    def on_down() -> None:
        metrics.connected.set(0)
        logger.warning("the connection to nats-server is lost; it is sought, and requests wait until their timeout")

    def on_up() -> None:
        metrics.connected.set(1)
        metrics.reconnects.inc()
        logger.warning("connected to nats-server again")
        before()

    link.on_down, link.on_up = on_down, on_up
    metrics.connected.set(1)
    presences = Presences(nats, LISTEN_S)
    await presences.listen()
    try:
        yield presences
    finally:
        link.on_down = _nothing  # it is about to be closed, and that is no loss


def _nothing() -> None:
    pass
