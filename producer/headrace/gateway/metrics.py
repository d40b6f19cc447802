"""What is counted, for Prometheus.

Knows the names and labels, all of small, closed sets: so all that may come is there at zero from the start, and the
first of anything shows as a rise. Does not know when: meter.py counts requests, call.py texts and tokens, connection.py
losses of nats-server.
"""

from collections.abc import Iterable
from importlib.metadata import version
from itertools import product

from headrace_contracts import PRIORITIES, TASKS, ErrorCode
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace.gateway.outcomes import OK
from headrace.gateway.problems import STATUS, Kind

# What objectives are measured by: refusals for want of room, and failures that are not the caller's.
_API_STATUSES = ("200", *sorted({str(status) for status in STATUS.values() if status == 429 or status >= 500}))
_TOKENISE_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """The counters of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        name = "headrace_gateway"
        self.requests = Counter(
            f"{name}_requests",
            "Requests that were answered.",
            ("route", "status", "class"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            f"{name}_request_seconds",
            "From the headers of a request to the end of its answer.",
            ("route", "class"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = Gauge(f"{name}_requests_in_flight", "Requests without an answer yet.", registry=self._registry)
        self.tokens = Counter(
            f"{name}_tokens", "Tokens that ran for requests.", ("model", "class"), registry=self._registry
        )
        self.refusals = Counter(
            f"{name}_refusals", "Requests without a result, by reason.", ("reason",), registry=self._registry
        )
        self.texts = Counter(
            f"{name}_texts",
            "Texts, documents and lists of token ids, by what became of them in the fleet.",
            ("class", "task", "outcome"),
            registry=self._registry,
        )
        self.truncated_texts = Counter(
            f"{name}_truncated_texts", "Texts of which the end was cut.", registry=self._registry
        )
        self.tokenise_seconds = Histogram(
            f"{name}_tokenise_seconds",
            "That the texts of a request took to become token ids.",
            buckets=_TOKENISE_SECONDS,
            registry=self._registry,
        )
        self.connected = Gauge(f"{name}_connected", "1 while nats-server is connected.", registry=self._registry)
        self.reconnects = Counter(
            f"{name}_reconnects", "Losses of nats-server that were made good.", registry=self._registry
        )
        self.ready = Gauge(f"{name}_ready", "1 if /health/ready says so.", registry=self._registry)
        Gauge(f"{name}_info", "1, with the version.", ("version",), registry=self._registry).labels(
            version("headrace")
        ).set(1)
        for kind in Kind:
            self.refusals.labels(str(kind))
        for each in product(PRIORITIES, TASKS, (OK, *map(str, ErrorCode))):
            self.texts.labels(*each)

    def know_routes(self, apis: Iterable[str], others: Iterable[str]) -> None:
        """Have the requests of these routes at zero: those of the APIs, that may also fail for reasons of ours."""
        for route, status, kind in product(apis, _API_STATUSES, PRIORITIES):
            self.requests.labels(route, status, kind)
        for route, kind in product(others, PRIORITIES):
            self.requests.labels(route, "200", kind)

    def know_models(self, names: Iterable[str]) -> None:
        """Have the tokens of these models at zero."""
        for name, kind in product(names, PRIORITIES):
            self.tokens.labels(name, kind)

    def page(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
