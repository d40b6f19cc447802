"""Workers: what each has in hand, what its steps are like, where its time goes, and its device.

Knows that series of workers have an address, and that headrace_worker_info tells the name to it.
"""

from .dashboard import Dashboard, Row, Variable
from .panel import Panel, Query

_MODEL = '{model=~"$model"}'
# The name of a worker is on one series of it, so that a restart does not double all the others.
_NAMED = 'on (job, instance) group_left (worker) headrace_worker_info{model=~"$model",worker=~"$worker"}'


def _of(series: str, *matchers: str) -> str:
    """A gauge of the workers chosen, with their names."""
    return f"{_selected(series, *matchers)} * {_NAMED}"


def _rate(series: str, *matchers: str) -> str:
    return f"rate({_selected(series, *matchers)}[$__rate_interval]) * {_NAMED}"


def _selected(series: str, *matchers: str) -> str:
    chosen = ",".join(['model=~"$model"', *matchers])
    return f"{series}{{{chosen}}}"


def _mean(histogram: str) -> str:
    return f"sum by (worker) ({_rate(f'{histogram}_sum')}) / sum by (worker) ({_rate(f'{histogram}_count')})"


def _stages(priority: str) -> list[Query]:
    buckets = _rate("headrace_worker_stage_seconds_bucket", f'class="{priority}"')
    return [Query(f"histogram_quantile(0.95, sum by (le, stage) ({buckets}))", "{{stage}}")]


_WHO = Row(
    "Who is there?",
    [
        Panel(
            title="Workers",
            description="Every worker that Prometheus reaches: its name, which `headrace workers` takes, and what it "
            "serves on what. Two fingerprints under one model name should not be.",
            unit="none",
            kind="table",
            width=24,
            queries=[Query('headrace_worker_info{model=~"$model",worker=~"$worker"}', "")],
            columns={
                "worker": "worker",
                "model": "model",
                "instance": "address",
                "device": "device",
                "dtype": "dtype",
                "pooling": "pooling",
                "dim": "dim",
                "max_length": "max length",
                "fingerprint": "fingerprint",
                "revision": "revision",
                "version": "version",
            },
        ),
        Panel(
            title="Ready",
            description="1 while a worker takes work. 0 while it loads, drains, has lost the broker, or its device "
            "does not answer.",
            unit="none",
            bounds=(0, 1),
            thresholds=[(None, "red"), (1, "green")],
            queries=[Query(_of("headrace_worker_ready"), "{{worker}}")],
        ),
        Panel(
            title="Draining",
            description="1 while a worker takes no new work because somebody told it to.",
            unit="none",
            bounds=(0, 1),
            thresholds=[(1, "orange")],
            queries=[Query(_of("headrace_worker_draining"), "{{worker}}")],
        ),
        Panel(
            title="Connections",
            description="1 while its connection to nats-server stands, and how often it was made anew.",
            unit="none",
            queries=[
                Query(_of("headrace_worker_connected"), "{{worker}}"),
                Query(
                    f"increase({_selected('headrace_worker_reconnects_total')}[10m]) * {_NAMED}",
                    "{{worker}} reconnections in 10 min",
                ),
            ],
        ),
    ],
)

_BUDGETS = Row(
    "What do they have in hand?",
    [
        Panel(
            title="Online budget",
            description="Bytes that a worker may have in hand or on their way, what it has, and what the broker may "
            "still send. Held near the budget: the worker is full.",
            unit="bytes",
            queries=[
                Query(_of("headrace_worker_budget_bytes", 'class="online"'), "{{worker}} budget"),
                Query(_of("headrace_worker_held_bytes", 'class="online"'), "{{worker}} held"),
                Query(_of("headrace_worker_credit_bytes", 'class="online"'), "{{worker}} credit"),
            ],
        ),
        Panel(
            title="Batch budget",
            description="The same for batch work, which has a budget of its own.",
            unit="bytes",
            queries=[
                Query(_of("headrace_worker_budget_bytes", 'class="batch"'), "{{worker}} budget"),
                Query(_of("headrace_worker_held_bytes", 'class="batch"'), "{{worker}} held"),
                Query(_of("headrace_worker_credit_bytes", 'class="batch"'), "{{worker}} credit"),
            ],
        ),
        Panel(
            title="Tokens in hand",
            description="Tokens that were pulled and not yet answered, and those of them that wait for a step.",
            unit="short",
            queries=[
                Query(_of("headrace_worker_held_tokens"), "{{worker}} held"),
                Query(_of("headrace_worker_queue_tokens"), "{{worker}} {{class}} waiting"),
            ],
        ),
        Panel(
            title="Chunks that wait for a step",
            description="Chunks in hand that no step has taken.",
            unit="short",
            width=12,
            queries=[Query(_of("headrace_worker_queue_chunks"), "{{worker}} {{class}}")],
        ),
        Panel(
            title="Oldest chunk in hand",
            description="How long ago the broker stored the oldest chunk that waits for a step.",
            unit="s",
            width=12,
            queries=[Query(_of("headrace_worker_queue_oldest_seconds"), "{{worker}} {{class}}")],
        ),
    ],
)

_BATCHES = Row(
    "What are their steps like?",
    [
        Panel(
            title="Step fill",
            description="Mean share of the step budget that steps filled. Low under load: chunks come too slowly, or "
            "online work that waits starts steps early.",
            unit="percentunit",
            bounds=(0, 1),
            queries=[Query(_mean("headrace_worker_step_fill_ratio"), "{{worker}}")],
        ),
        Panel(
            title="Tokens a step",
            description="Mean tokens of a step, and the most that one may have.",
            unit="short",
            queries=[
                Query(_mean("headrace_worker_step_tokens"), "{{worker}}"),
                Query(_of("headrace_worker_step_budget_tokens"), "{{worker}} budget"),
            ],
        ),
        Panel(
            title="Sequences a step",
            description="Mean sequences of a step, short texts making many.",
            unit="short",
            queries=[Query(_mean("headrace_worker_step_sequences"), "{{worker}}")],
        ),
        Panel(
            title="Steps",
            description="Steps a second that ran to the end.",
            unit="ops",
            queries=[Query(_rate("headrace_worker_steps_total"), "{{worker}}")],
        ),
        Panel(
            title="Failed steps",
            description="Steps a second that raised. Their chunks were run one by one to find the culprit.",
            unit="ops",
            thresholds=[(0.001, "red")],
            queries=[Query(_rate("headrace_worker_failed_steps_total"), "{{worker}}")],
        ),
        Panel(
            title="Steps that the device has",
            description="Steps handed to the device and not done. None while tokens are held: it waits for something.",
            unit="none",
            queries=[Query(_of("headrace_worker_steps_in_flight"), "{{worker}}")],
        ),
    ],
)

_STAGES = Row(
    "Where does the time go?",
    [
        Panel(
            title="Online, by stage",
            description="95 of 100 online chunks spend no more than this in a stage.",
            unit="s",
            thresholds=[(0.5, "red")],
            queries=_stages("online"),
        ),
        Panel(
            title="Batch, by stage",
            description="95 of 100 batch chunks spend no more than this in a stage. A long queue is as it should be.",
            unit="s",
            queries=_stages("batch"),
        ),
        Panel(
            title="Online, by worker",
            description="99 of 100 online chunks of a worker are answered within this. One worker above the others: "
            "look at its device.",
            unit="s",
            thresholds=[(0.5, "red")],
            queries=[
                Query(
                    "histogram_quantile(0.99, sum by (le, worker) ("
                    + _rate("headrace_worker_request_seconds_bucket", 'class="online"')
                    + "))",
                    "{{worker}}",
                )
            ],
        ),
    ],
)

_DEVICES = Row(
    "How busy is what they run on?",
    [
        Panel(
            title="Tokens a second",
            description="Tokens that ran and were answered, and what the worker takes itself for able to do.",
            unit="short",
            queries=[
                Query(f"sum by (worker) ({_rate('headrace_worker_tokens_out_total')})", "{{worker}}"),
                Query(_of("headrace_worker_tokens_per_second"), "{{worker}} can do"),
            ],
        ),
        Panel(
            title="Tokens in and out",
            description="Tokens pulled and tokens answered, by class. More in than out for long: work piles up in "
            "hand, or expires.",
            unit="short",
            queries=[
                Query(f"sum by (class) ({_rate('headrace_worker_tokens_in_total')})", "{{class}} in"),
                Query(f"sum by (class) ({_rate('headrace_worker_tokens_out_total')})", "{{class}} out"),
            ],
        ),
        Panel(
            title="Sequences",
            description="Sequences a second by what became of each.",
            unit="ops",
            queries=[Query(f"sum by (outcome) ({_rate('headrace_worker_sequences_total')})", "{{outcome}}")],
        ),
        Panel(
            title="Device utilisation",
            description="Share of time in which the device computed, as it says itself. CUDA devices only.",
            unit="percentunit",
            bounds=(0, 1),
            width=6,
            queries=[Query(_of("headrace_worker_device_utilisation_ratio"), "{{worker}}")],
        ),
        Panel(
            title="Device memory",
            description="Memory of the device, whoever uses it. CUDA devices only.",
            unit="bytes",
            width=6,
            queries=[Query(_of("headrace_worker_device_memory_bytes"), "{{worker}} {{kind}}")],
        ),
        Panel(
            title="Cores",
            description="Cores that the process keeps busy. Workers on the same cores slow each other: `--threads`.",
            unit="none",
            width=6,
            queries=[
                Query(
                    'rate(process_cpu_seconds_total{job="headrace-worker"}[$__rate_interval]) * ' + _NAMED,
                    "{{worker}}",
                )
            ],
        ),
        Panel(
            title="Process memory",
            description="Memory of the process. It should not grow for days.",
            unit="bytes",
            width=6,
            queries=[Query('process_resident_memory_bytes{job="headrace-worker"} * ' + _NAMED, "{{worker}}")],
        ),
    ],
)

_GRAPHS = Row(
    "CUDA graphs",
    [
        Panel(
            title="What became of steps",
            description="Steps that ran eagerly or replayed a graph, graphs captured and evicted. Once warm, most "
            "should be replays, and hardly any captures. On a CPU all is 0.",
            unit="ops",
            queries=[Query(f"sum by (event) ({_rate('headrace_worker_graphs_total')})", "{{event}}")],
        ),
        Panel(
            title="Graphs kept",
            description="Graphs that a worker keeps for replaying.",
            unit="short",
            queries=[Query(_of("headrace_worker_graphs_kept"), "{{worker}}")],
        ),
        Panel(
            title="Memory of graphs",
            description="Device memory that captures have added. It is capped; the least recently used are evicted.",
            unit="bytes",
            queries=[Query(_of("headrace_worker_graph_memory_bytes"), "{{worker}}")],
        ),
    ],
)

_TROUBLE = Row(
    "What goes wrong?",
    [
        Panel(
            title="Came again, went to the dead letters",
            description="Chunks that had been delivered before, and those that were kept as dead letters, a second.",
            unit="ops",
            queries=[
                Query(_rate("headrace_worker_redelivered_total"), "{{worker}} {{class}} redelivered"),
                Query(_rate("headrace_worker_dead_lettered_total"), "{{worker}} {{class}} dead letters"),
            ],
        ),
        Panel(
            title="Given back and abandoned",
            description="Chunks that a drain gave back, and those that were left to their redelivery because the "
            "connection was gone.",
            unit="ops",
            queries=[
                Query(_rate("headrace_worker_given_back_total"), "{{worker}} given back"),
                Query(_rate("headrace_worker_abandoned_total"), "{{worker}} abandoned"),
            ],
        ),
        Panel(
            title="Numbers that are none",
            description="Sequences a second for which the model gave NaN or infinity. Their callers got an error.",
            unit="ops",
            thresholds=[(0.001, "red")],
            queries=[Query(_rate("headrace_worker_non_finite_total"), "{{worker}}")],
        ),
    ],
)

DASHBOARD = Dashboard(
    uid="workers",
    title="Headrace: workers",
    description="What each worker has in hand, what its steps are like, where its time goes, and its device.",
    variables=[
        Variable("model", "model", "headrace_worker_ready"),
        Variable("worker", "worker", f"headrace_worker_info{_MODEL}"),
    ],
    rows=[_WHO, _BUDGETS, _BATCHES, _STAGES, _DEVICES, _GRAPHS, _TROUBLE],
)
