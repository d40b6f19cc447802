"""`python -m bulk.held COMMAND …`: the headrace command, and how long its event loop was held up.

It knows asyncio's own event loop, whose callbacks it times, and says on standard error at the end, as a JSON line, what
the longest came to, and how much processor time it all took. It does not know the command.
"""

import asyncio
import json
import sys
import time
from asyncio import Handle, events

from headrace.cli import main

_LONG_MS = 50.0


class Held:
    """The longest callback of all event loops of this process.

    Attributes:
        longest_ms: Of it, by the clock: waiting for Python's lock, and for a core, included.
        longest_cpu_ms: Processor time of the loop's thread in the one that used most.
        what: Was called in the longest.
        num_long: Callbacks of more than 50 ms.
    """

    def __init__(self) -> None:
        self.longest_ms = self.longest_cpu_ms = 0.0
        self.what = ""
        self.num_long = 0

    def watch(self) -> None:
        """From now on, time each callback."""
        run = events.Handle._run  # noqa: SLF001 - there is no other place where all of them come by

        def timed(handle: Handle) -> None:
            cpu_s, begun_s = time.thread_time(), time.perf_counter()
            run(handle)
            took_ms = (time.perf_counter() - begun_s) * 1000
            self.longest_cpu_ms = max(self.longest_cpu_ms, (time.thread_time() - cpu_s) * 1000)
            self.num_long += took_ms > _LONG_MS
            if took_ms > self.longest_ms:
                self.longest_ms, self.what = took_ms, _name(handle)

        events.Handle._run = timed  # type: ignore[assignment]  # noqa: SLF001 - likewise; its stub names self twice


def _name(handle: Handle) -> str:
    """The coroutine of a task's step, or the function."""
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - what its repr is made of
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return str(getattr(owner.get_coro(), "__qualname__", owner))
    return str(getattr(callback, "__qualname__", callback))


if __name__ == "__main__":
    held = Held()
    held.watch()
    try:
        main()
    finally:
        found = {
            "longest_hold_ms": round(held.longest_ms, 1),
            "longest_hold_cpu_ms": round(held.longest_cpu_ms, 1),
            "longest_hold_of": held.what,
            "holds_over_50_ms": held.num_long,
            "cpu_s": round(time.process_time(), 2),
        }
        print(json.dumps(found), file=sys.stderr, flush=True)
