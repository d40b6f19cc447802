"""What is counted, for Prometheus.

Knows the names and labels, all of small, closed sets. Does not know when: meter.py counts requests, call.py tokens.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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

    def page(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
