"""`headrace job verify`: the audit of a job, and doing again what it found wrong.

Knows how a job's record says what to open. Does not know how an audit compares, nor how a job runs.
"""

from dataclasses import dataclass
from pathlib import Path

from headrace_contracts.credentials import Credentials

from headrace.bulk.jobs.record import JobRecord
from headrace.bulk.progress import Progress
from headrace.bulk.reindex import reindex
from headrace.bulk.settings import Settings
from headrace.bulk.show import How
from headrace.bulk.sink import Sink
from headrace.bulk.sinks.open_sink import open_sink
from headrace.bulk.source import Source
from headrace.bulk.sources.reading import Reading
from headrace.bulk.verify import Verdict, verify
from headrace.commands.long_run import long_run
from headrace.commands.tables import rows_of
from headrace.errors import SinkError

# Of the windows in which something is wrong: there may be thousands.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is audited.

    Attributes:
        record: of the job.
        nats: URL of nats-server.
        access: who connects to it.
        source: the corpus, if it is spelt otherwise than the record has it.
        to: the sink, likewise: with the password that no record keeps.
        folder: of the job's files, if the sink is no folder.
    """

    record: JobRecord
    nats: str
    access: Credentials | None = None
    source: str | None = None
    to: str | None = None
    folder: Path | None = None

    def look(self, *, reopen: bool) -> Verdict | None:
        """Compare. None if a signal has ended it.

        Args:
            reopen: have what is wrong done again by whoever goes on with the job.

        Raises:
            HeadraceError: see verify.
        """
        source, sink = self._source(), self._sink()

        async def compared(_: Progress) -> Verdict:
            job, folder = self.record.name, self.folder
            return await verify(source, sink, job=job, url=self.nats, access=self.access, reopen=reopen, folder=folder)

        try:
            return long_run(compared, "none")
        except SinkError as error:
            if self.to is None and self.record.sink.startswith("postgres"):
                text = (
                    f"{error}. The job keeps no user and no password: give them with --to, or in PGUSER and PGPASSWORD"
                )
                raise SinkError(text) from error
            raise

    def repair(self, how: How) -> bool:
        """Go on with the job until it is done; false if a signal has ended that.

        Raises:
            HeadraceError: see reindex.
        """
        settings = Settings.of(self.record, folder=self.folder)
        summary = long_run(
            lambda progress: reindex(
                self._source(),
                self._sink(),
                job=self.record.name,
                url=self.nats,
                access=self.access,
                settings=settings,
                progress=progress,
            ),
            how,
        )
        return summary is not None

    def _source(self) -> Source:
        return Reading.of(self.record.options).open(self.source or self.record.source)

    def _sink(self) -> Sink:
        return open_sink(self.to or self.record.sink)


def told(verdict: Verdict) -> str:
    """What it comes to, in one sentence."""
    failed = f", {verdict.failed:,} failed and are in the errors file" if verdict.failed else ""
    if verdict.is_good:
        extra = f"; the sink has {rows_of(verdict.extra)} more, of an older corpus" if verdict.extra else ""
        return f"right: {rows_of(verdict.right)} in the sink{failed}{extra}"
    counts = ", ".join(f"{rows_of(count)} {name}" for name, count in _wrong(verdict) if count)
    more = f" and {len(verdict.windows) - _NAMED:,} more" if len(verdict.windows) > _NAMED else ""
    where = f", in the windows {', '.join(verdict.windows[:_NAMED])}{more}" if verdict.windows else ""
    return f"not right: {counts}{where}"


def _wrong(verdict: Verdict) -> list[tuple[str, int]]:
    return [
        ("missing", verdict.missing),
        ("with another text (of another row with that id?)", verdict.stale),
        ("damaged", verdict.damaged),
        ("not done", verdict.not_done),
        ("too many, doubled or of an older corpus", verdict.extra if verdict.is_one_corpus else 0),
    ]
