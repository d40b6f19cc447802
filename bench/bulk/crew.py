"""Workers of one fleet, each of which is killed and replaced on its own.

It knows their processes. It does not know what they answer with. Its methods block.
"""

import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeAlias

Process: TypeAlias = "subprocess.Popen[bytes]"


class Crew:
    """So many workers, which are away until they are started."""

    def __init__(self, size: int, worker: Callable[[int], AbstractContextManager[Process]]) -> None:
        """Take how many they are, and what runs the one of a number while its context lasts."""
        self._worker = worker
        self._stacks = [ExitStack() for _ in range(size)]
        self._processes: list[Process | None] = [None] * size

    @property
    def pids(self) -> list[int]:
        """Of those that are there."""
        return [process.pid for process in self._processes if process is not None]

    @property
    def ended(self) -> list[int]:
        """Those that have ended by themselves."""
        return [n for n, process in enumerate(self._processes) if process is not None and process.poll() is not None]

    def start(self, which: int) -> None:
        """Start one that is away; raises what its context raises."""
        which %= len(self._stacks)
        self._processes[which] = self._stacks[which].enter_context(self._worker(which))

    def restart(self, which: int) -> None:
        """Start one again that has ended by itself; raises what its context raises."""
        self._end(which % len(self._stacks))
        self.start(which)

    def start_all(self) -> None:
        """Start all."""
        for which in range(len(self._stacks)):
            self.start(which)

    def kill(self, which: int) -> None:
        """End one without a word."""
        self.signal(which, signal.SIGKILL)
        self._end(which % len(self._stacks))

    def signal(self, which: int, number: signal.Signals) -> None:
        """Send a signal to one, if it is there."""
        process = self._processes[which % len(self._stacks)]
        if process is not None:
            process.send_signal(number)

    def stop(self, which: int) -> None:
        """Drain one; frozen, it goes on first."""
        self.signal(which, signal.SIGCONT)
        self._end(which % len(self._stacks))

    def stop_all(self) -> None:
        """Drain all."""
        for which in range(len(self._stacks)):
            self.stop(which)

    def _end(self, which: int) -> None:
        self._processes[which] = None
        self._stacks[which].close()
