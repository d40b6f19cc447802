"""Jobs: how far bulk jobs are, when they end, and what keeps them.

Knows what the exporter tells of the newest fifty. `headrace job show NAME` has a job's shards and its reason.
"""

from .dashboard import Dashboard, Row, Variable
from .panel import Panel, Query

_JOB = '{bulk_job=~"$bulk_job"}'
_ROWS = f"sum by (bulk_job) (headrace_job_rows{_JOB})"

_PROGRESS = Row(
    "How far are they?",
    [
        Panel(
            title="Jobs by state",
            description="All bulk jobs that the fleet remembers, by the state that they should be in.",
            unit="none",
            kind="stat",
            width=24,
            height=4,
            queries=[Query("headrace_jobs", "{{state}}")],
        ),
        Panel(
            title="Jobs",
            description="The newest fifty: state, processes, rows, seconds until the end. One that is running and has "
            "no process waits for its `headrace reindex` command.",
            unit="short",
            kind="table",
            width=24,
            queries=[
                Query('headrace_job_info{bulk_job=~"$bulk_job",model=~"$model"}', ""),
                Query(f"sum by (bulk_job) (headrace_job_processes{_JOB})", ""),
                Query(_ROWS, ""),
                Query(f"sum by (bulk_job) (headrace_job_rows_expected{_JOB})", ""),
                Query(f"sum by (bulk_job) (headrace_job_eta_seconds{_JOB})", ""),
            ],
            columns={
                "bulk_job": "job",
                "model": "model",
                "state": "state",
                "Value #B": "processes",
                "Value #C": "rows done",
                "Value #D": "rows in all",
                "Value #E": "seconds left",
            },
        ),
        Panel(
            title="Done",
            description="Share of the corpus that is done, where its rows are known.",
            unit="percentunit",
            bounds=(0, 1),
            queries=[Query(f"{_ROWS} / sum by (bulk_job) (headrace_job_rows_expected{_JOB} > 0)", "{{bulk_job}}")],
        ),
        Panel(
            title="Rows a second",
            description="Rows that came to be done. Rows are counted when their window is in the sink, so it goes by "
            "steps; the mean is over five minutes.",
            unit="short",
            queries=[Query(f"sum by (bulk_job) (rate(headrace_job_rows{_JOB}[5m]))", "{{bulk_job}}")],
        ),
        Panel(
            title="Time left",
            description="Until it is done, as fast as it was of late. None where nothing is known.",
            unit="s",
            queries=[Query(f"headrace_job_eta_seconds{_JOB}", "{{bulk_job}}")],
        ),
        Panel(
            title="Processes",
            description="Processes that work on a job. None while it should run: start its command again.",
            unit="none",
            queries=[Query(f"headrace_job_processes{_JOB}", "{{bulk_job}}")],
        ),
        Panel(
            title="Failed rows",
            description="Rows without a vector. The job's errors file has each, with the reason.",
            unit="short",
            thresholds=[(1, "orange")],
            queries=[Query('headrace_job_rows{bulk_job=~"$bulk_job",state="failed"}', "{{bulk_job}}")],
        ),
        Panel(
            title="Chunks sent again",
            description="Chunks of the job that were published again because no result came, in ten minutes.",
            unit="short",
            thresholds=[(100, "orange")],
            queries=[Query(f"increase(headrace_job_retries_total{_JOB}[10m])", "{{bulk_job}}")],
        ),
    ],
)

_FLEET = Row(
    "What does the fleet do for them?",
    [
        Panel(
            title="Batch tokens a second",
            description="Batch tokens that ran and were answered. Beside online work, batch has its floor at least.",
            unit="short",
            queries=[
                Query('model_class:headrace_worker_tokens_out:rate1m{class="batch",model=~"$model"}', "{{model}}")
            ],
        ),
        Panel(
            title="Batch backlog",
            description="Seconds of work in the batch queue. None while a job runs: its producer is what is slow.",
            unit="s",
            thresholds=[(86400, "orange")],
            queries=[Query('headrace_fleet_backlog_seconds{class="batch",model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Results that wait for a sink",
            description="Share of its limit that HR_RESULTS is at. When it is full, batch work stands still.",
            unit="percentunit",
            bounds=(0, 1),
            thresholds=[(0.5, "orange"), (0.8, "red")],
            queries=[Query("headrace_fleet_results_bytes / (headrace_fleet_results_limit_bytes > 0)", "HR_RESULTS")],
        ),
        Panel(
            title="Dead letters of batch work",
            description="Batch chunks that no worker could run. `headrace dead ls --job NAME` lists a job's.",
            unit="short",
            thresholds=[(1, "orange")],
            queries=[Query('headrace_fleet_dead_letters{class="batch",model=~"$model"}', "{{model}}")],
        ),
        Panel(
            title="Batch chunks by outcome",
            description="Batch chunks a second that workers answered.",
            unit="ops",
            queries=[
                Query(
                    'sum by (outcome) (rate(headrace_worker_chunks_total{class="batch",model=~"$model"}'
                    "[$__rate_interval]))",
                    "{{outcome}}",
                )
            ],
        ),
        Panel(
            title="Redelivered batch chunks",
            description="Batch chunks a second that had been delivered before.",
            unit="ops",
            queries=[
                Query(
                    'sum by (model) (rate(headrace_worker_redelivered_total{class="batch",model=~"$model"}'
                    "[$__rate_interval]))",
                    "{{model}}",
                )
            ],
        ),
    ],
)

DASHBOARD = Dashboard(
    uid="jobs",
    title="Headrace: bulk jobs",
    description="How far bulk jobs are, when they end, and what keeps them.",
    variables=[
        Variable("model", "model", "headrace_fleet_workers"),
        Variable("bulk_job", "bulk_job", 'headrace_job_info{model=~"$model"}'),
    ],
    rows=[_PROGRESS, _FLEET],
)
