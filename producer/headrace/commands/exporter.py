"""`headrace exporter`: what the fleet is, for Prometheus, until Ctrl-C.

Knows the flags and the signals. Does not know metrics; what does is imported late, for it is an extra.
"""

import asyncio
import logging
import signal
from typing import Annotated

import typer
from headrace_contracts.address import Address

from headrace.commands.flags import DEFAULT_NATS, Access, Nats
from headrace.errors import InputError
from headrace.survey.servers import monitor_urls

logger = logging.getLogger(__name__)


def exporter(
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    listen: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_LISTEN",
            metavar="HOST:PORT",
            help="Where to serve /metrics and /health; :PORT is on all addresses, port 0 takes a free one.",
        ),
    ] = "127.0.0.1:9465",
    every: Annotated[float, typer.Option(min=0.5, help="Seconds from one survey of the fleet to the next.")] = 5,
    nats_monitor: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Monitoring ports of nats-servers, such as http://nats:8222; several with commas."
        ),
    ] = "",
) -> None:
    """Serve what no single worker knows to Prometheus: queues in tokens and seconds, workers, jobs, the broker."""
    try:
        # An extra: the command must be there without it.
        from headrace.exporter.serve import ExporterConfig, serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        raise InputError(f"{name} is not installed: pip install 'headrace[exporter]'") from error
    try:
        address = Address.read(listen, "--listen")
    except ValueError as error:
        raise InputError(str(error)) from error
    config = ExporterConfig(
        nats=nats, access=access, listen=address, every_s=every, monitors=monitor_urls(nats_monitor)
    )

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(config, stop, _begin)

    asyncio.run(run())


def _begin(url: str) -> None:
    logger.info("headrace exporter at %s/metrics; Ctrl-C stops it", url, extra={"url": url})
