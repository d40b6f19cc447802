"""A bulk job's progress as a live bar in a terminal.

Knows rich, and how the numbers read. Does not know when it is drawn (show.py).
"""

from typing import NoReturn, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.bulk.progress import SILENT_S, Snapshot

# Below this the bar says less than the letters that would have to go for it.
_LEAST_BAR = 8


class _Terminal(Console):
    """A console that says so when nobody reads it any more, where rich would end the process.

    Its cursor stays: whoever kills the process has it back.
    """

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 - rich's signature
        """Called when the drawing begins and ends."""
        return False

    def on_broken_pipe(self) -> NoReturn:
        """Called while the error is handled."""
        raise  # noqa: PLE0704 - it is


class Bar:
    """A bar and two lines of numbers that stay in their place; the last ones are left there.

    Lines that the process writes to standard error meanwhile appear above it.
    """

    every_s = 0.25

    def __init__(self, out: TextIO) -> None:
        self._live = Live(
            console=_Terminal(file=out, highlight=False), auto_refresh=False, redirect_stdout=False, transient=False
        )

    def draw(self, snapshot: Snapshot) -> None:
        """Draw it as it is now.

        Raises:
            OSError: the terminal is gone.
        """
        if not self._live.is_started:
            self._live.start()
        self._live.update(_picture(snapshot, self._live.console.width), refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was, below the last drawing."""
        self._live.stop()


def _picture(snapshot: Snapshot, width: int) -> Group:
    below = Text(how_it_goes(snapshot), style="dim", no_wrap=True, overflow="ellipsis")
    said = how_far(snapshot)
    if len(snapshot.stage) + len(said) + _LEAST_BAR + 2 > width:
        return Group(Text(f"{snapshot.stage} · {said}", no_wrap=True, overflow="ellipsis"), below)
    total = snapshot.total_rows
    completed = snapshot.rows_done if total is None else min(snapshot.rows_done, total)
    # Without a total it pulses; over nothing it is full.
    bar = ProgressBar(total=total or (None if total is None else 1), completed=completed if total else 1)
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1, min_width=_LEAST_BAR)
    row.add_column(no_wrap=True)
    row.add_row(snapshot.stage, bar, said)
    return Group(row, below)


def how_far(snapshot: Snapshot) -> str:
    """Rows, speed, and the time that is left."""
    said = [f"{snapshot.rows_done:,} rows"]
    if snapshot.total_rows is not None:
        # Rounded down, for 100 % says that all is done.
        share = 100 * snapshot.rows_done // snapshot.total_rows if snapshot.total_rows else 100
        said = [f"{min(100, share)} %", f"{snapshot.rows_done:,} of {snapshot.total_rows:,} rows"]
    if snapshot.stage == "running":
        if snapshot.tokens_per_s is not None:
            said.append(f"{snapshot.tokens_per_s:,.0f} tokens/s")
        if snapshot.eta_s is not None:
            said.append(f"{duration(snapshot.eta_s)} left")
    return " · ".join(said)


def how_it_goes(snapshot: Snapshot) -> str:
    """What waits, what was tried again, what failed; what is none is left out, but the queue of a job that goes on."""
    goes_on = snapshot.stage in {"starting", "running", "paused"}
    counts = (
        # What was seen last may be gone when all is over.
        (snapshot.chunks_queued if goes_on else 0, "chunk queued", "chunks queued"),
        (snapshot.windows_in_flight, "window in flight", "windows in flight"),
        (snapshot.rows_unchanged, "row unchanged", "rows unchanged"),
        (snapshot.retries, "retry", "retries"),
        (snapshot.rows_failed, "row failed", "rows failed"),
        (snapshot.processes if snapshot.processes > 1 else 0, "process", "processes"),
    )
    said = [
        f"{count:,} {one if count == 1 else many}"
        for count, one, many in counts
        if count or (goes_on and many == "chunks queued")
    ]
    if snapshot.silent_s >= SILENT_S:
        said.insert(0, f"no answer for {duration(snapshot.silent_s)}: does a worker run?")
    return " · ".join(said)


def duration(seconds: float) -> str:
    """In the two largest units that say something."""
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"
