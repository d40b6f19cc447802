"""Broker: whether nats-server answers, how full it is, its copies and its servers, and the exporter that tells.

Knows what the exporter reads from JetStream, and from monitoring ports where `--nats-monitor` names them.
"""

from .dashboard import Dashboard, Row, Variable
from .panel import Panel, Query

_STREAM = '{stream=~"$nats_stream"}'
_SERVER = '{server=~"$server"}'


def _server(name: str) -> str:
    return f"headrace_broker_server_{name}{_SERVER}"


def _server_rate(name: str) -> str:
    return f"rate({_server(name)}[$__rate_interval])"


_ANSWERS = Row(
    "Does it answer?",
    [
        Panel(
            title="nats-server",
            description="Whether it answers the exporter.",
            unit="none",
            kind="stat",
            width=4,
            height=6,
            thresholds=[(None, "red"), (1, "green")],
            texts={"0": "down", "1": "up"},
            queries=[Query("headrace_broker_up", "{{instance}}")],
        ),
        Panel(
            title="Version",
            description="Of the server that the exporter is connected to, and its cluster.",
            unit="none",
            kind="table",
            width=6,
            height=6,
            queries=[Query("headrace_broker_info", "")],
            columns={"version": "version", "cluster": "cluster", "instance": "told by"},
        ),
        Panel(
            title="Round trip",
            description="A PING of the exporter and its answer. More than some milliseconds inside a data centre: a "
            "busy server, or network.",
            unit="s",
            width=7,
            height=6,
            thresholds=[(0.05, "orange"), (0.5, "red")],
            queries=[Query("headrace_broker_rtt_seconds", "{{instance}}")],
        ),
        Panel(
            title="Reconnections",
            description="Workers and gateways that connected anew, in ten minutes.",
            unit="short",
            width=7,
            height=6,
            thresholds=[(5, "orange")],
            queries=[
                Query("increase(headrace_worker_reconnects_total[10m])", "worker {{instance}}"),
                Query("increase(headrace_gateway_reconnects_total[10m])", "gateway {{instance}}"),
            ],
        ),
    ],
)

_FULL = Row(
    "How full is it?",
    [
        Panel(
            title="Memory of JetStream",
            description="Of the account: what is used, and the limit where there is one. Online queues lie in memory.",
            unit="bytes",
            queries=[
                Query("headrace_broker_memory_bytes", "used"),
                Query("headrace_broker_memory_limit_bytes", "limit"),
            ],
        ),
        Panel(
            title="Storage of JetStream",
            description="Of the account: what is used, and the limit where there is one. Batch queues, results and "
            "dead letters lie on disk.",
            unit="bytes",
            queries=[
                Query("headrace_broker_storage_bytes", "used"),
                Query("headrace_broker_storage_limit_bytes", "limit"),
            ],
        ),
        Panel(
            title="NATS streams and their limits",
            description="Share of its limit that each is at. Online queues refuse when full, batch queues make "
            "producers wait, HR_RESULTS makes workers wait, HR_DEAD forgets the oldest.",
            unit="percentunit",
            bounds=(0, 1),
            thresholds=[(0.8, "orange"), (0.9, "red")],
            queries=[Query(f"stream:headrace_broker_stream_bytes:fill_ratio{_STREAM}", "{{stream}}")],
        ),
        Panel(
            title="Messages",
            description="Messages of each NATS stream.",
            unit="short",
            width=12,
            queries=[Query(f"headrace_broker_stream_messages{_STREAM}", "{{stream}}")],
        ),
        Panel(
            title="Bytes",
            description="Bytes of each NATS stream.",
            unit="bytes",
            width=12,
            queries=[Query(f"headrace_broker_stream_bytes{_STREAM}", "{{stream}}")],
        ),
    ],
)

_COPIES = Row(
    "Are all copies there?",
    [
        Panel(
            title="Copies that are behind or offline",
            description="By NATS stream. One that stays so: a server is down, or its disk is slow.",
            unit="none",
            width=12,
            thresholds=[(1, "orange")],
            queries=[
                Query(
                    'headrace_broker_stream_replicas{stream=~"$nats_stream",state=~"behind|offline"}',
                    "{{stream}} {{state}}",
                )
            ],
        ),
        Panel(
            title="Copies that are current",
            description="By NATS stream; one on a single server.",
            unit="none",
            width=12,
            queries=[
                Query('headrace_broker_stream_replicas{stream=~"$nats_stream",state="current"}', "{{stream}}"),
            ],
        ),
    ],
)

_SERVERS = Row(
    "Servers (headrace exporter --nats-monitor)",
    [
        Panel(
            title="Up",
            description="1 while the monitoring port of the server answers.",
            unit="none",
            width=6,
            bounds=(0, 1),
            thresholds=[(None, "red"), (1, "green")],
            queries=[Query(_server("up"), "{{server}}")],
        ),
        Panel(
            title="Cores",
            description="Cores that the server uses.",
            unit="none",
            width=6,
            queries=[Query(_server("cpu_ratio"), "{{server}}")],
        ),
        Panel(
            title="Memory",
            description="Memory of the server's process, online queues included.",
            unit="bytes",
            width=6,
            queries=[Query(_server("memory_bytes"), "{{server}}")],
        ),
        Panel(
            title="Connections",
            description="Clients, workers and gateways that are connected.",
            unit="short",
            width=6,
            queries=[Query(_server("connections"), "{{server}}")],
        ),
        Panel(
            title="Messages in and out",
            description="Messages a second that the server received and sent.",
            unit="ops",
            width=6,
            queries=[
                Query(_server_rate("in_messages_total"), "{{server}} in"),
                Query(_server_rate("out_messages_total"), "{{server}} out"),
            ],
        ),
        Panel(
            title="Bytes in and out",
            description="Bytes a second that the server received and sent.",
            unit="Bps",
            width=6,
            queries=[
                Query(_server_rate("in_bytes_total"), "{{server}} in"),
                Query(_server_rate("out_bytes_total"), "{{server}} out"),
            ],
        ),
        Panel(
            title="Slow consumers",
            description="Connections that the server closed in ten minutes because they did not read what they had "
            "asked for: a process that hangs, or a network that is too slow.",
            unit="short",
            width=6,
            thresholds=[(1, "orange")],
            queries=[Query(f"increase({_server('slow_consumers_total')}[10m])", "{{server}}")],
        ),
        Panel(
            title="Uptime",
            description="Since the server started.",
            unit="s",
            width=6,
            queries=[Query(_server("uptime_seconds"), "{{server}}")],
        ),
    ],
)

_EXPORTER = Row(
    "Can this be believed?",
    [
        Panel(
            title="Age of the last survey",
            description="What the exporter tells is as old as that.",
            unit="s",
            thresholds=[(60, "red")],
            queries=[Query("headrace_exporter_survey_age_seconds", "{{instance}}")],
        ),
        Panel(
            title="Time of a survey",
            description="How long the exporter reads until it has seen all.",
            unit="s",
            thresholds=[(10, "orange")],
            queries=[Query("headrace_exporter_survey_seconds", "{{instance}}")],
        ),
        Panel(
            title="Parts that could not be read",
            description="Surveys in five minutes that missed a part: no rights to read it, or a broker too slow.",
            unit="short",
            thresholds=[(5, "orange")],
            queries=[Query("increase(headrace_exporter_survey_errors_total[5m])", "{{part}}")],
        ),
    ],
)

DASHBOARD = Dashboard(
    uid="broker",
    title="Headrace: broker",
    description="Whether nats-server answers, how full it is, its copies and its servers.",
    variables=[
        Variable("nats_stream", "stream", "headrace_broker_stream_messages"),
        Variable("server", "server", "headrace_broker_server_up"),
    ],
    rows=[_ANSWERS, _FULL, _COPIES, _SERVERS, _EXPORTER],
)
