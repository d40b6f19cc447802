"""Runs an exporter: connects, surveys the fleet every few seconds, serves what it found until it is told to stop.

Knows the order of things and the clock. Does not know what a survey is made of, nor signals.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from headrace_contracts.address import Address
from headrace_contracts.connection import Link
from headrace_contracts.credentials import Credentials
from headrace_contracts.page_server import serving
from headrace_contracts.pages import Check, Pages
from nats.aio.client import Client as NatsClient
from prometheus_client import make_wsgi_app

from headrace.errors import AccessDenied, ConnectionFailed, InputError, PortTaken
from headrace.exporter.metrics import Metrics
from headrace.reach import check_url, reached
from headrace.survey import surveying, without_broker

logger = logging.getLogger(__name__)

_LEAST_S = 0.5
_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterConfig:
    """All that an exporter is told.

    Attributes:
        nats: URL of nats-server.
        access: who connects; None takes what stands in the URL, or nothing.
        listen: where its pages are.
        every_s: seconds from one survey to the next.
        monitors: URLs of the monitoring of nats-servers.
    """

    nats: str
    access: Credentials | None = None
    listen: Address = Address("127.0.0.1", 9465)  # noqa: RUF009 - frozen
    every_s: float = 5
    monitors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_url(self.nats)
        if not _LEAST_S <= self.every_s < float("inf"):
            raise InputError(f"every_s is {self.every_s}: take {_LEAST_S} or more, for surveys are work for the broker")


async def serve(config: ExporterConfig, stop: asyncio.Event, on_ready: Callable[[str], None]) -> None:
    """Serve until `stop` is set. A broker that does not answer is told of, and sought for ever.

    Args:
        config: how.
        stop: ends it.
        on_ready: called with the URL once it listens.

    Raises:
        AccessDenied: nats-server does not take these credentials.
        PortTaken: it cannot listen there.
    """
    metrics = Metrics(config.every_s)
    checks: dict[str, Check] = {
        "/health/live": metrics.why_not_alive,
        "/health/ready": metrics.why_not_ready,
    }
    with _listening(Pages(make_wsgi_app(metrics.registry), checks), config.listen) as at:
        on_ready(f"http://{at if at.host else f'0.0.0.0:{at.port}'}")  # how all addresses are written
        surveying_ = asyncio.create_task(_survey(config, metrics))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((surveying_, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (surveying_, stopping):
            task.cancel()
        await asyncio.wait((surveying_, stopping))
        if not surveying_.cancelled():
            surveying_.result()


@contextmanager
def _listening(pages: Pages, address: Address) -> Iterator[Address]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(serving(pages, address))
        except OSError as error:
            raise PortTaken(
                f"cannot listen on {address}: {error.strerror or error}; choose another --listen, port 0 takes a free "
                "one"
            ) from error
        yield found


async def _survey(config: ExporterConfig, metrics: Metrics) -> NoReturn:
    """Connect, and once that is done survey for ever."""
    client_id, level = secrets.token_hex(8), logging.WARNING
    while True:
        began_s = time.monotonic()
        try:
            async with reached(
                config.nats, name="headrace exporter", client_id=client_id, timeout_s=_CONNECT_S, access=config.access
            ) as (nats, link):
                await _follow(nats, link, config, metrics)
        except AccessDenied:
            raise
        except ConnectionFailed as error:
            logger.log(level, "%s; it is sought every %g s", error, config.every_s)
            level = logging.DEBUG  # said once
            metrics.tell(await without_broker(str(error), config.monitors))
        await asyncio.sleep(max(0.0, began_s + config.every_s - time.monotonic()))  # until it is time to try again


async def _follow(nats: NatsClient, link: Link, config: ExporterConfig, metrics: Metrics) -> NoReturn:
    """Survey for ever over one connection; at once when it is lost, and when it is made anew."""
    changed = asyncio.Event()
    async with surveying(nats, config.monitors) as surveyor:

        def on_down() -> None:
            logger.warning("the connection to nats-server is lost")
            surveyor.lost()
            changed.set()

        def on_up() -> None:
            logger.warning("connected to nats-server again")
            changed.set()

        link.on_down, link.on_up = on_down, on_up
        try:
            while True:
                began_s = time.monotonic()
                changed.clear()
                metrics.tell(await surveyor.take())
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, began_s + config.every_s - time.monotonic())):
                        await changed.wait()
        finally:
            link.on_down = _nothing  # it is closed now, and that is no loss


def _nothing() -> None:
    pass
