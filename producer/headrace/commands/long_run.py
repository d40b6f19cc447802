"""Work of days in the foreground: shown as it goes, and ended by a signal so that it may go on another time.

Knows signals and the event loop. Does not know what the work is.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from headrace.bulk.progress import Progress
from headrace.bulk.show import How, show
from headrace.errors import JobFailed

T = TypeVar("T")

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def long_run(work: Callable[[Progress], Coroutine[Any, Any, T]], how: How) -> T | None:
    """Do the work, and show the progress that it raises on standard error.

    Returns:
        What the work does; None if a signal has ended it.

    Raises:
        Exception: what the work raises.
    """
    try:
        return asyncio.run(_shown(work, how))
    except asyncio.CancelledError:
        return None


async def _shown(work: Callable[[Progress], Coroutine[Any, Any, T]], how: How) -> T:
    loop, progress = asyncio.get_running_loop(), Progress()

    def stop() -> None:
        working.cancel()
        # The second one ends it at once, by which nothing is lost either: a database may keep the first waiting.
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    working = asyncio.ensure_future(work(progress))
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    showing = asyncio.create_task(show(progress, how, sys.stderr))
    try:
        return await working
    except BaseException as error:
        if progress.stage in {"starting", "running", "paused"}:
            progress.stage = "failed" if isinstance(error, JobFailed) else "stopped"
        raise
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing
