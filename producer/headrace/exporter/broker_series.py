"""Series of the broker: whether it answers, what JetStream holds, its NATS streams and its servers.

Pure. Whether it is up is always told; all else has no sample where it could not be read.
"""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headrace.exporter.families import Row, counter, gauge, one
from headrace.survey import Account, Server, Stream, Survey


def broker_series(survey: Survey) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    """All of them."""
    broker = survey.broker
    yield one("headrace_broker_up", "1 if nats-server answers.", float(broker is not None))
    yield one(
        "headrace_broker_rtt_seconds", "A PING to nats-server and its answer.", None if broker is None else broker.rtt_s
    )
    yield gauge(
        "headrace_broker_info",
        "1, with the version of the server that answers and its cluster.",
        ("version", "cluster"),
        [] if broker is None else [((broker.version, broker.cluster or ""), 1)],
    )
    yield from _account(survey.account)
    yield from _streams(survey)
    yield from _servers(survey.servers)


def _account(account: Account | None) -> Iterator[GaugeMetricFamily]:
    def each(name: str, help_: str, value: Callable[[Account], float | None]) -> GaugeMetricFamily:
        return one(f"headrace_broker_{name}", help_, None if account is None else value(account))

    yield each("memory_bytes", "Memory that JetStream uses for the account.", lambda found: found.memory_bytes)
    yield each(
        "memory_limit_bytes", "Memory that it may use, where there is a limit.", lambda found: found.max_memory_bytes
    )
    yield each("storage_bytes", "Disk that JetStream uses for the account.", lambda found: found.storage_bytes)
    yield each(
        "storage_limit_bytes", "Disk that it may use, where there is a limit.", lambda found: found.max_storage_bytes
    )


def _streams(survey: Survey) -> Iterator[GaugeMetricFamily]:
    streams = survey.streams or {}

    def each(name: str, help_: str, value: Callable[[Stream], float | None]) -> GaugeMetricFamily:
        rows = (((stream.name,), value(stream)) for stream in streams.values())
        return gauge(f"headrace_broker_stream_{name}", help_, ("stream",), rows)

    yield each("messages", "Messages of a NATS stream.", lambda stream: stream.num_messages)
    yield each("bytes", "Bytes of a NATS stream.", lambda stream: stream.num_bytes)
    yield each(
        "limit_bytes", "Bytes that a NATS stream may hold, where it has a limit.", lambda stream: stream.max_bytes
    )
    yield gauge(
        "headrace_broker_stream_replicas",
        "Copies of a NATS stream by state; one that no server answers for has one that is offline, at least.",
        ("stream", "state"),
        _replicas(survey),
    )


def _replicas(survey: Survey) -> Iterator[Row]:
    for name, stream in (survey.streams or {}).items():
        yield (name, "current"), stream.replicas.current
        yield (name, "behind"), stream.replicas.behind
        yield (name, "offline"), stream.replicas.offline
    for name in survey.silent_streams:
        yield (name, "current"), 0
        yield (name, "behind"), 0
        yield (name, "offline"), 1


def _servers(servers: tuple[Server, ...]) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    label = ("server",)
    yield gauge(
        "headrace_broker_server_up",
        "1 if the monitoring port of the server answers.",
        label,
        (((server.address,), float(server.problem is None)) for server in servers),
    )

    def rows(value: Callable[[Server], float]) -> Iterator[Row]:
        return (((server.address,), value(server)) for server in servers if server.problem is None)

    prefix = "headrace_broker_server"
    yield gauge(f"{prefix}_cpu_ratio", "Cores that the server uses.", label, rows(lambda server: server.cpu))
    yield gauge(f"{prefix}_memory_bytes", "Memory of the server.", label, rows(lambda server: server.memory_bytes))
    yield gauge(f"{prefix}_connections", "Clients of the server.", label, rows(lambda server: server.connections))
    yield gauge(f"{prefix}_uptime_seconds", "Since the server started.", label, rows(lambda server: server.uptime_s))
    yield counter(
        f"{prefix}_slow_consumers",
        "Connections that the server closed because they did not read.",
        label,
        rows(lambda server: server.slow_consumers),
    )
    yield counter(f"{prefix}_in_messages", "Messages received.", label, rows(lambda server: server.in_messages))
    yield counter(f"{prefix}_out_messages", "Messages sent.", label, rows(lambda server: server.out_messages))
    yield counter(f"{prefix}_in_bytes", "Bytes received.", label, rows(lambda server: server.in_bytes))
    yield counter(f"{prefix}_out_bytes", "Bytes sent.", label, rows(lambda server: server.out_bytes))
