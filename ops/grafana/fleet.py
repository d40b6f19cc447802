"""Fleet: are users served? Objectives, latencies, queues, refusals.

Knows the questions of whoever is called at night. Where it says that workers, jobs or the broker are to blame, their
own dashboards go on.
"""

from .dashboard import Dashboard, Row, Variable
from .panel import Panel, Query

_ONLINE_BUCKETS = 'model_class_le:headrace_worker_request_seconds_bucket:rate1m{class="online",model=~"$model"}'
_ROUTES = 'route!~"/health/.*|/metrics|unmatched"'


def _met(slo: str, model: str = ',model=~"$model"') -> str:
    """The share of requests of the last hour that met an objective."""
    errors = f'sum_over_time(model_slo:headrace_errors:rate5m{{slo="{slo}"{model}}}[1h])'
    return f'1 - {errors} / sum_over_time(model_slo:headrace_requests:rate5m{{slo="{slo}"{model}}}[1h])'


def _quantiles(buckets: str, by: str, legend: str) -> list[Query]:
    return [
        Query(f"histogram_quantile({quantile}, sum by (le{by}) ({buckets}))", f"{legend}p{round(100 * quantile)}")
        for quantile in (0.5, 0.95, 0.99)
    ]


_SERVED = Row(
    "Are users served?",
    [
        Panel(
            title="Online chunks answered",
            description="Of the last hour, the share of online chunks that workers answered with a result and not with "
            "an error of ours. What callers did wrong or gave up is left out. The objective is 99.9 %.",
            unit="percentunit",
            kind="stat",
            width=5,
            height=5,
            bounds=(None, None),
            thresholds=[(None, "red"), (0.99, "orange"), (0.999, "green")],
            queries=[Query(_met("availability"), "{{model}}")],
        ),
        Panel(
            title="Online chunks in time",
            description="Of the last hour, the share of online chunks that were answered within 0.5 s of being stored "
            "in the broker. The objective is 99 %.",
            unit="percentunit",
            kind="stat",
            width=5,
            height=5,
            bounds=(None, None),
            thresholds=[(None, "red"), (0.95, "orange"), (0.99, "green")],
            queries=[Query(_met("latency"), "{{model}}")],
        ),
        Panel(
            title="HTTP requests served",
            description="Of the last hour, the share of online requests over HTTP that got neither 429 nor 5xx. The "
            "objective is 99.9 %.",
            unit="percentunit",
            kind="stat",
            width=5,
            height=5,
            bounds=(None, None),
            thresholds=[(None, "red"), (0.99, "orange"), (0.999, "green")],
            queries=[Query(_met("gateway", ""), "gateway")],
        ),
        Panel(
            title="Workers",
            description="Workers that announce themselves. A model with none serves nobody.",
            unit="none",
            kind="stat",
            width=5,
            height=5,
            thresholds=[(None, "red"), (1, "green")],
            queries=[Query('headrace_fleet_workers{model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Alerts",
            description="Alerts that fire. ops/runbook.md has an entry for each.",
            unit="none",
            kind="stat",
            width=4,
            height=5,
            thresholds=[(1, "orange")],
            queries=[Query('count(ALERTS{alertname=~"Headrace.+",alertstate="firing"}) or vector(0)', "firing")],
        ),
        Panel(
            title="How fast error budgets burn",
            description="1 uses up the error budget just in its 30 days. Above 14.4 for an hour, or 6 for six, "
            "somebody is called.",
            unit="none",
            width=24,
            thresholds=[(1, "yellow"), (6, "orange"), (14.4, "red")],
            queries=[
                Query('model_slo:headrace_burn:rate1h{model=~"$model|"}', "{{slo}} {{model}}, 1 h"),
                Query('model_slo:headrace_burn:rate5m{model=~"$model|"}', "{{slo}} {{model}}, 5 min"),
            ],
        ),
    ],
)

_LATENCY = Row(
    "How long do they wait?",
    [
        Panel(
            title="Online, from stored to answered",
            description="Time of online chunks from the broker's storing them to their reply. The line is the "
            "objective for 99 of 100.",
            unit="s",
            thresholds=[(0.5, "red")],
            queries=_quantiles(_ONLINE_BUCKETS, ", model", "{{model}} "),
        ),
        Panel(
            title="Where online chunks spend their time",
            description="Mean seconds in each stage: queue, until its step starts; pack, a part of that; run, on the "
            "device; reply. A long queue wants workers; a long run, smaller steps or a faster device.",
            unit="s",
            queries=[
                Query(
                    'sum by (stage) (rate(headrace_worker_stage_seconds_sum{class="online",model=~"$model"}'
                    "[$__rate_interval])) / sum by (stage) (rate(headrace_worker_stage_seconds_count"
                    '{class="online",model=~"$model"}[$__rate_interval]))',
                    "{{stage}}",
                )
            ],
        ),
        Panel(
            title="HTTP requests",
            description="Time of online requests in the gateway, from their headers to the end of the answer. Much "
            "more than chunks take is the gateway's own: tokenising, or large answers.",
            unit="s",
            thresholds=[(1, "red")],
            queries=_quantiles(
                f'rate(headrace_gateway_request_seconds_bucket{{class="online",{_ROUTES}}}[$__rate_interval])', "", ""
            ),
        ),
    ],
)

_WORK = Row(
    "What is done?",
    [
        Panel(
            title="Tokens a second",
            description="Tokens that ran and were answered, by class, beside what workers say they can do. Near "
            "that line the fleet is full.",
            unit="short",
            queries=[
                Query('sum by (class) (model_class:headrace_worker_tokens_out:rate1m{model=~"$model"})', "{{class}}"),
                Query('sum(headrace_fleet_tokens_per_second{model=~"$model"})', "what workers can do"),
            ],
        ),
        Panel(
            title="Chunks by outcome",
            description="Chunks that workers answered. expired: nobody got to them in time. cancelled: their callers "
            "gave up. internal: dead letters.",
            unit="ops",
            queries=[
                Query(
                    'sum by (class, outcome) (rate(headrace_worker_chunks_total{model=~"$model"}[$__rate_interval])) '
                    '> 0 or sum by (class, outcome) (rate(headrace_worker_chunks_total{model=~"$model",outcome="ok"}'
                    "[$__rate_interval]))",
                    "{{class}} {{outcome}}",
                )
            ],
        ),
        Panel(
            title="HTTP requests by status",
            description="429 is a refusal by admission, 503 a fleet or broker that is not there, 504 a deadline that "
            "passed. 4xx else are the callers'.",
            unit="reqps",
            queries=[
                Query(
                    f"sum by (status) (rate(headrace_gateway_requests_total{{{_ROUTES}}}[$__rate_interval]))",
                    "{{status}}",
                )
            ],
        ),
    ],
)

_QUEUES = Row(
    "What waits?",
    [
        Panel(
            title="Online backlog",
            description="Seconds that the workers need for all online work that is queued. Queues hold about two.",
            unit="s",
            thresholds=[(1, "orange"), (2, "red")],
            queries=[Query('headrace_fleet_backlog_seconds{class="online",model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Fullest online queue",
            description="Share of its limit that the fullest online queue of a model is at. A full one refuses.",
            unit="percentunit",
            bounds=(0, 1),
            thresholds=[(0.5, "orange"), (0.8, "red")],
            queries=[Query('model:headrace_online_queue:fill_ratio{model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Refusals over HTTP",
            description="Requests that the gateways turned away or could not serve, by reason. overloaded is admission "
            "at work: add workers. unavailable: no worker, or no broker.",
            unit="reqps",
            thresholds=[(0.5, "orange")],
            queries=[
                Query(
                    "sum by (reason) (rate(headrace_gateway_refusals_total{"
                    'reason=~"overloaded|unavailable|expired|worker_failed|internal"}[$__rate_interval]))',
                    "{{reason}}",
                )
            ],
        ),
        Panel(
            title="Batch backlog",
            description="Seconds that the workers need for all batch work that is queued. Bulk jobs keep a part of "
            "their corpus queued, so hours are no alarm.",
            unit="s",
            thresholds=[(86400, "orange")],
            queries=[Query('headrace_fleet_backlog_seconds{class="batch",model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Oldest chunk",
            description="Age of the oldest chunk in a queue. Online ones are forgotten after 30 s.",
            unit="s",
            queries=[Query('headrace_fleet_queue_oldest_seconds{model=~"$model"}', "{{model}} {{class}}")],
        ),
        Panel(
            title="Chunks in queues",
            description="Chunks in the broker, those included that workers hold and have not answered.",
            unit="short",
            queries=[
                Query('headrace_fleet_queue_messages{model=~"$model"}', "{{model}} {{class}}"),
                Query('headrace_fleet_unacked_messages{model=~"$model"}', "{{model}} {{class}}, held by workers"),
            ],
        ),
        Panel(
            title="Tokens in queues",
            description="Tokens in the broker, estimated from bytes.",
            unit="short",
            queries=[Query('headrace_fleet_queue_tokens{model=~"$model"}', "{{model}} {{class}}")],
        ),
        Panel(
            title="Queues and their limits",
            description="Bytes of all queues of a model together. A batch queue at its limit makes producers wait.",
            unit="bytes",
            queries=[
                Query('headrace_fleet_queue_bytes{model=~"$model"}', "{{model}} {{class}}"),
                Query('headrace_fleet_queue_limit_bytes{model=~"$model"}', "{{model}} {{class}}, limit"),
            ],
        ),
        Panel(
            title="Pulls that wait",
            description="Pulls of workers that the broker has no work for. None, while there is work queued: every "
            "worker is busy.",
            unit="short",
            queries=[Query('headrace_fleet_waiting_pulls{model=~"$model"}', "{{model}} {{class}}")],
        ),
    ],
)

_TROUBLE = Row(
    "What goes wrong?",
    [
        Panel(
            title="Dead letters",
            description="Chunks that no worker could run, kept for 30 days. `headrace dead ls` lists them.",
            unit="short",
            thresholds=[(1, "orange")],
            queries=[Query('headrace_fleet_dead_letters{model=~"$model"}', "{{model}} {{class}}")],
        ),
        Panel(
            title="Redelivered",
            description="Chunks that came to workers more than once, and those of them that workers hold now: somebody "
            "died with them, or took too long.",
            unit="short",
            queries=[
                Query(
                    "sum by (model, class) "
                    '(rate(headrace_worker_redelivered_total{model=~"$model"}[$__rate_interval]))',
                    "{{model}} {{class}} a second",
                ),
                Query('headrace_fleet_redelivered_messages{model=~"$model"}', "{{model}} {{class}} now"),
            ],
        ),
        Panel(
            title="Failed steps and numbers that are none",
            description="Steps that raised, and sequences whose result was not finite.",
            unit="ops",
            thresholds=[(0.01, "orange")],
            queries=[
                Query(
                    'sum by (model) (rate(headrace_worker_failed_steps_total{model=~"$model"}[$__rate_interval]))',
                    "{{model}} failed steps",
                ),
                Query(
                    'sum by (model) (rate(headrace_worker_non_finite_total{model=~"$model"}[$__rate_interval]))',
                    "{{model}} not finite",
                ),
            ],
        ),
    ],
)

_GATEWAYS = Row(
    "Gateways",
    [
        Panel(
            title="Requests in flight",
            description="Requests without an answer yet. A gateway serves 512 at a time by default, then refuses.",
            unit="none",
            width=6,
            thresholds=[(400, "orange")],
            queries=[Query("headrace_gateway_requests_in_flight", "{{instance}}")],
        ),
        Panel(
            title="Tokenising",
            description="Time to make tokens of a request's texts. It grows with their length, and where a gateway has "
            "too few cores.",
            unit="s",
            width=6,
            queries=_quantiles("rate(headrace_gateway_tokenise_seconds_bucket[$__rate_interval])", "", ""),
        ),
        Panel(
            title="Texts",
            description="Texts by what became of them, and those that were cut because the model reads no further.",
            unit="ops",
            width=6,
            queries=[
                Query("sum by (outcome) (rate(headrace_gateway_texts_total[$__rate_interval])) > 0", "{{outcome}}"),
                Query("sum(rate(headrace_gateway_truncated_texts_total[$__rate_interval]))", "truncated"),
            ],
        ),
        Panel(
            title="Tokens for HTTP",
            description="Tokens that ran for requests over HTTP, by model and class.",
            unit="short",
            width=6,
            queries=[
                Query(
                    'sum by (model, class) (rate(headrace_gateway_tokens_total{model=~"$model"}[$__rate_interval]))',
                    "{{model}} {{class}}",
                )
            ],
        ),
    ],
)

DASHBOARD = Dashboard(
    uid="fleet",
    title="Headrace: fleet",
    description="Are users served? Objectives, latencies, queues, refusals.",
    variables=[Variable("model", "model", "headrace_fleet_workers")],
    rows=[_SERVED, _LATENCY, _WORK, _QUEUES, _TROUBLE, _GATEWAYS],
)
