"""What can be said of a job by its records, as plain facts.

Pure. Knows records of jobs. Does not know how facts are printed, nor where records are kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from headrace.bulk.jobs.process import is_gone
from headrace.bulk.jobs.record import JobRecord, Owner, ShardRecord, Tally

# Three times the longest that an owner which lives is silent for by default. The broker's clock and this machine's may
# differ by a part of it.
_SILENT_MS = 60_000


def job_facts(job: JobRecord, shards: Mapping[int, ShardRecord], now_ms: int) -> dict[str, Any]:
    """A job and how far it is; a flat map, as a line of JSON."""
    tally = Tally.sum(record.checkpoint.tally for record in shards.values())
    return {
        "name": job.name,
        "state": job.state,
        "reason": job.reason,
        "progress": _progress(job, shards, tally),
        "num_rows": job.num_rows,
        **asdict(tally),
        "num_shards": job.num_shards,
        "shards_done": sum(record.checkpoint.is_done for record in shards.values()),
        "processes": num_processes(shards.values(), now_ms),
        "model": job.card.model,
        "source": job.source,
        "sink": job.sink,
        "created_ms": job.created_ms,
        "changed_ms": job.changed_ms,
    }


def state_of(facts: Mapping[str, Any]) -> str:
    """The state for people: a job that should run, and that no process works on, is `waiting` for one."""
    return "waiting" if facts["state"] == "running" and not facts["processes"] else str(facts["state"])


def shard_facts(record: ShardRecord, now_ms: int) -> dict[str, Any]:
    """A shard that somebody has begun, who works on it, and how far it is."""
    return {
        "shard": record.shard,
        "state": shard_state(record, now_ms),
        "owner": None if record.owner is None else owner_name(record.owner),
        "windows_done": sum(span.end_window - span.window for span in record.checkpoint.spans.spans),
        **asdict(record.checkpoint.tally),
    }


def shard_state(record: ShardRecord, now_ms: int) -> str:
    """`done`, `at work`, `waiting` for a process, or `silent`: its process may have ended without a word."""
    if record.checkpoint.is_done:
        return "done"
    if record.owner is None or is_gone(record.owner):
        return "waiting"
    is_silent = record.written_ms > 0 and now_ms - record.written_ms > _SILENT_MS
    return "silent" if is_silent else "at work"


def num_processes(shards: Iterable[ShardRecord], now_ms: int) -> int:
    """How many processes are at work on these shards."""
    at_work = [record.owner for record in shards if shard_state(record, now_ms) == "at work"]
    return len({owner.process for owner in at_work if owner is not None})


def owner_name(owner: Owner) -> str:
    """A process, for people."""
    return f"{owner.host}:{owner.pid}"


def _progress(job: JobRecord, shards: Mapping[int, ShardRecord], tally: Tally) -> float | None:
    """How much of it is done, 0 to 1, by rows, else by shards; None where there is nothing to do."""
    if job.state == "done":
        return 1.0
    if job.num_rows:
        return min(1.0, tally.rows / job.num_rows)
    done = sum(record.checkpoint.is_done for record in shards.values())
    return done / job.num_shards if job.num_shards else None
