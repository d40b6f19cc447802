"""The command that goes on with a job, for people to copy.

Pure. Knows the flags of `headrace reindex` and what a job's record keeps of them. Does not know where records are kept.
"""

import shlex
from collections.abc import Iterator

from headrace.bulk.cut import Cut
from headrace.bulk.jobs.record import JobRecord

_READ = {
    "read_column": "--column",
    "read_id_column": "--id",
    "read_kind": "--source-kind",
    "read_delimiter": "--delimiter",
    "read_query_shards": "--query-shards",
    "prompt_name": "--prompt-name",
    "job_dir": "--job-dir",
}
_DEFAULTS = {"read_column": "text", "read_query_shards": 1}
# Each switch, and what it is without a flag.
_SWITCHES = {
    "truncate": ("--no-truncate", True),
    "dedupe": ("--no-dedupe", True),
    "skip_unchanged": ("--no-skip-unchanged", True),
    "keep_texts": ("--keep-text", False),
}


def job_command(job: JobRecord) -> str:
    """What a shell takes; where the sink needs a password, that has to be added, for no job keeps one."""
    return shlex.join(_words(job))


def _words(job: JobRecord) -> Iterator[str]:
    yield from ("headrace", "reindex", job.source, "--to", job.sink, "--job", job.name)
    for name, flag in _READ.items():
        value = job.options.get(name)
        if value is not None and value != _DEFAULTS.get(name):
            yield from (flag, str(value))
    card = job.card
    yield from ("--model", card.model, "--dim", str(card.dim), "--dtype", card.dtype)
    yield "--normalize" if card.normalize else "--no-normalize"
    for name, (flag, default) in _SWITCHES.items():
        if job.options.get(name, default) != default:
            yield flag
    if job.cut.rows != Cut().rows:
        yield from ("--window-rows", str(job.cut.rows))
