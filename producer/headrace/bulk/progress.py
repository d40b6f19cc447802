"""How far a bulk job is: counters that it raises, and what they come to at a moment.

Pure: it is told the time. Does not know who shows it (bar.py, lines.py), nor where the counts come from.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.bulk.rate import Rate

Stage: TypeAlias = Literal["starting", "running", "paused", "stopped", "done", "cancelled", "failed"]

# Tokens come chunk by chunk. Rows come by the window, and the time that is left should not jump with each of them.
_TOKENS_S, _ROWS_S = 10.0, 600.0
# Workers answer within seconds, whatever the model: after this something is amiss, and no rate tells what is to come.
SILENT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a progress came to at a moment.

    Attributes:
        stage: of the job.
        rows_done: of the whole job, by all processes and earlier runs: written, unchanged or failed.
        total_rows: of the corpus; None where nobody knows.
        rows_read: by this process in this run.
        rows_unchanged: of rows_done by this process, those that the sink had already.
        rows_failed: of rows_done by this process, those in the errors file.
        tokens_done: answered to this process.
        tokens_per_s: of this process, over the last ten seconds; None until that is known.
        rows_per_s: of the whole job, over the last ten minutes; None likewise.
        eta_s: seconds until all rows are done at that rate; None where that cannot be said.
        chunks_queued: of the job in the broker.
        windows_in_flight: of this process.
        retries: of this process: chunks that were sent again, writes that were tried again.
        processes: that work on the job, this one included.
        silent_s: for how long nothing was answered to this process though chunks of the job wait in the broker.
        elapsed_s: since this process's first snapshot.
    """

    stage: Stage
    rows_done: int
    total_rows: int | None
    rows_read: int
    rows_unchanged: int
    rows_failed: int
    tokens_done: int
    tokens_per_s: float | None
    rows_per_s: float | None
    eta_s: float | None
    chunks_queued: int
    windows_in_flight: int
    retries: int
    processes: int
    silent_s: float
    elapsed_s: float


class Progress:
    """The counters of one process, which whoever does the work raises as it goes. Used on one thread.

    Attributes:
        stage: of the job, or `stopped` where this process has ended before it. Rates and the time that is left are of
            the time spent `running`; all that was done before goes into rows_elsewhere before that.
        total_rows: of the whole corpus; None where nobody knows.
        rows_elsewhere: done by earlier runs and, as far as is known, by other processes.
        rows_read: by this process in this run.
        rows_done: by this process in this run: written, unchanged or failed.
        rows_unchanged: of these, those that the sink had already.
        rows_failed: of these, those in the errors file.
        tokens_done: answered to this process.
        chunks_queued: of the job in the broker, as last seen.
        windows_in_flight: of this process.
        retries: chunks that were sent again, writes that were tried again.
        processes: that work on the job, this one included.
    """

    def __init__(self, total_rows: int | None = None) -> None:
        self.stage: Stage = "starting"
        self.total_rows = total_rows
        self.rows_elsewhere = 0
        self.rows_read = 0
        self.rows_done = 0
        self.rows_unchanged = 0
        self.rows_failed = 0
        self.tokens_done = 0
        self.chunks_queued = 0
        self.windows_in_flight = 0
        self.retries = 0
        self.processes = 1
        self._began_s: float | None = None
        self._heard_s, self._heard = 0.0, -1
        self._tokens, self._rows = Rate(_TOKENS_S), Rate(_ROWS_S)

    def snapshot(self, now_s: float) -> Snapshot:
        """What it comes to now, and one more sample for the rates.

        Args:
            now_s: of a clock that never goes back.
        """
        if self._began_s is None:
            self._began_s = now_s
        rows_done = self.rows_elsewhere + self.rows_done
        self._sample(now_s, rows_done)
        rows_per_s, silent_s = self._rows.per_s, self._silent_s(now_s)
        return Snapshot(
            stage=self.stage,
            rows_done=rows_done,
            total_rows=self.total_rows,
            rows_read=self.rows_read,
            rows_unchanged=self.rows_unchanged,
            rows_failed=self.rows_failed,
            tokens_done=self.tokens_done,
            tokens_per_s=self._tokens.per_s,
            rows_per_s=rows_per_s,
            eta_s=None if silent_s >= SILENT_S else self._eta_s(rows_done, rows_per_s),
            chunks_queued=self.chunks_queued,
            windows_in_flight=self.windows_in_flight,
            retries=self.retries,
            processes=self.processes,
            silent_s=silent_s,
            elapsed_s=now_s - self._began_s,
        )

    def _sample(self, now_s: float, rows_done: int) -> None:
        if self.stage in {"starting", "paused"}:
            self._tokens.clear()
            self._rows.clear()
        elif self.stage == "running":
            self._tokens.add(now_s, self.tokens_done)
            self._rows.add(now_s, rows_done)

    def _silent_s(self, now_s: float) -> float:
        if self.stage != "running" or not self.chunks_queued or self._heard != self.tokens_done:
            self._heard_s, self._heard = now_s, self.tokens_done
        return now_s - self._heard_s

    def _eta_s(self, rows_done: int, rows_per_s: float | None) -> float | None:
        if self.stage != "running" or self.total_rows is None or not rows_per_s or rows_per_s < 0:
            return None
        # More rows than were counted at first: the corpus grew, or the count was an estimate.
        return max(0, self.total_rows - rows_done) / rows_per_s
