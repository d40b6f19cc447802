"""Bulk jobs: a corpus is read, embedded by the fleet and kept in a sink, whatever ends a part of that meanwhile.

    summary = await reindex(open_source("articles.jsonl", id_column="id"), open_sink("parquet:vectors"), job="articles")

Source and Sink are protocols: whatever has their methods will do. Importing this imports no library of any of them;
open_source and open_sink do, when they are asked for one.
"""

from headrace.bulk.card import Card
from headrace.bulk.cut import Cut
from headrace.bulk.progress import Progress, Snapshot
from headrace.bulk.reindex import reindex
from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.settings import Settings
from headrace.bulk.show import show
from headrace.bulk.sink import Part, Sink, Stored
from headrace.bulk.sinks.open_sink import open_sink
from headrace.bulk.source import MAX_ROWS, Shard, Source
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.summary import Summary
from headrace.bulk.tolerance import Tolerance
from headrace.bulk.verify import Verdict, verify
from headrace.errors import (
    BulkError,
    CardMismatch,
    JobConflict,
    JobEnded,
    JobFailed,
    ShardLost,
    SinkError,
    SinkRefused,
    SourceError,
)

__all__ = [
    "MAX_ROWS",
    "BulkError",
    "Card",
    "CardMismatch",
    "Cut",
    "Id",
    "JobConflict",
    "JobEnded",
    "JobFailed",
    "Part",
    "Problem",
    "Progress",
    "Rows",
    "Settings",
    "Shard",
    "ShardLost",
    "Sink",
    "SinkError",
    "SinkRefused",
    "Snapshot",
    "Source",
    "SourceError",
    "Stored",
    "Summary",
    "Tolerance",
    "Verdict",
    "open_sink",
    "open_source",
    "reindex",
    "show",
    "verify",
]
