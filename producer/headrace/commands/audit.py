"""`headrace job verify`: the audit of a job, and doing again what it found wrong.

Knows how a job's record says what to open. Does not know how an audit compares, nor how a job runs.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bulk.jobs.record import JobRecord
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.bulk.verify import Verdict


def audit(
    record: JobRecord, nats: str, source: str | None, to: str | None, folder: Path | None, *, repair: bool
) -> "Verdict":
    """Audit a job; with `repair`, once more after what was wrong has been done again.

    Raises:
        HeadraceError: see verify and reindex.
    """
    try:
        from headrace.bulk.reindex import reindex  # noqa: PLC0415 - an extra: the command must be there without it
        from headrace.bulk.settings import Settings  # noqa: PLC0415
        from headrace.bulk.sinks.open_sink import open_sink  # noqa: PLC0415
        from headrace.bulk.sources.reading import Reading  # noqa: PLC0415
        from headrace.bulk.verify import verify  # noqa: PLC0415
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        raise InputError(f"{name} is not installed: pip install 'headrace[bulk]'") from error
    corpus, place = Reading.of(record.options).open(source or record.source), to or record.sink

    async def run() -> "Verdict":
        verdict = await verify(corpus, open_sink(place), job=record.name, url=nats, reopen=repair, folder=folder)
        if verdict.is_good or not repair:
            return verdict
        settings = Settings.of(record, folder=folder)
        await reindex(corpus, open_sink(place), job=record.name, url=nats, settings=settings)
        return await verify(corpus, open_sink(place), job=record.name, url=nats, reopen=False, folder=folder)

    return asyncio.run(run())


def told(verdict: "Verdict") -> str:
    """What it comes to, in one sentence."""
    extra = f"; the sink has {verdict.extra:,} rows more, doubled or of an older corpus" if verdict.extra else ""
    if not verdict.is_good:
        where = f" in {', '.join(verdict.windows[:5])}" if verdict.windows else ""
        return f"not right{where}: see the counts{extra}"
    failed = f", {verdict.failed:,} failed and are in the errors file" if verdict.failed else ""
    return f"right: {verdict.right:,} rows are in the sink{failed}{extra}"
