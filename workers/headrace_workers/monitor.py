"""What a worker tells over HTTP: its metrics and its health.

    /metrics                                           Prometheus' text format, or OpenMetrics where that is asked for
    /health/startup, /health/live, /health/ready       as in pages.py of contracts

Knows which pages there are. Does not know what a metric or a sign of health means, nor sockets.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from headrace_contracts.address import Address
from headrace_contracts.page_server import serving
from headrace_contracts.pages import Check, Pages
from prometheus_client import make_wsgi_app

from headrace_workers.errors import AddressUnfit
from headrace_workers.health import not_live, not_ready, not_started
from headrace_workers.metrics import Metrics
from headrace_workers.pulse import Pulse

logger = logging.getLogger(__name__)


@contextmanager
def monitored(address: Address, model: str, pulse: Pulse) -> Iterator[Address]:
    """Listen and answer while the context lasts; gives the address with the port that was taken.

    Args:
        address: where to listen.
        model: served name of the model, a label of every series.
        pulse: of the process; what is told is read from it.

    Raises:
        AddressUnfit: it is taken, or not one of this machine.
    """
    limits = pulse.limits
    checks: dict[str, Check] = {
        "/health/startup": lambda: not_started(pulse.vitals()),
        "/health/live": lambda: not_live(pulse.vitals(), limits, time.monotonic()),
        "/health/ready": lambda: not_ready(pulse.vitals(), limits, time.monotonic()),
    }
    pages = Pages(make_wsgi_app(Metrics(model, pulse).registry), checks)
    with ExitStack() as stack:
        try:
            found = stack.enter_context(serving(pages, address))
        except OSError as error:
            raise AddressUnfit(
                f"monitor {address} cannot be listened on ({error.strerror or error}): give another one, or port 0"
            ) from error
        logger.info("monitor at http://%s: /metrics, %s", found, ", ".join(checks))
        yield found
