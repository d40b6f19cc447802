"""Shows a bulk job's progress for as long as it runs.

Knows when something is drawn, and that drawing may block. Does not know what it looks like (bar.py, lines.py).
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Protocol, TextIO, TypeAlias

from headrace.bulk.bar import Bar
from headrace.bulk.lines import Lines
from headrace.bulk.progress import Progress, Snapshot

How: TypeAlias = Literal["bar", "json", "none"]


class _Display(Protocol):
    """Something that snapshots are drawn on."""

    @property
    def every_s(self) -> float:
        """How often that is worth while."""
        ...

    def draw(self, snapshot: Snapshot) -> None:
        """May block, and raises OSError where nobody can see it any more."""
        ...

    def close(self) -> None:
        """Nothing is drawn any more."""
        ...


async def show(progress: Progress, how: How, out: TextIO) -> None:
    """Show a progress until cancelled, and once more then.

    A display that breaks, as when its terminal is closed, ends this early and never the job.

    Args:
        progress: to show; read on the event loop, so that it needs no lock.
        how: `bar` is a live bar, and JSON lines where `out` is no terminal; `json` is those; `none` shows nothing.
        out: where to, such as sys.stderr.
    """
    if how == "none":
        return
    display: _Display = Bar(out) if how == "bar" and out.isatty() else Lines(out)
    # One thread, so that what is drawn last comes last. A reader that stands still must not hold up the job.
    thread = ThreadPoolExecutor(1, thread_name_prefix="progress")
    loop = asyncio.get_running_loop()
    try:
        try:
            while True:
                await loop.run_in_executor(thread, display.draw, progress.snapshot(time.monotonic()))
                await asyncio.sleep(display.every_s)  # a clock's tick is what it waits for
        finally:
            await loop.run_in_executor(thread, _finish, display, progress.snapshot(time.monotonic()))
    except (OSError, ValueError):
        return  # ValueError: a file that was closed
    finally:
        thread.shutdown(wait=False)


def _finish(display: _Display, snapshot: Snapshot) -> None:
    try:
        display.draw(snapshot)
    finally:
        display.close()
