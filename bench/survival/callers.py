"""Callers that are killed and replaced, frozen and cut off; each life of one has a history of its own.

It knows their processes. What they ask is caller.py's, what their histories prove checker.py's. Its methods block.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from economics import processes

from survival.caller import Plan
from survival.place import Place

_STOP_S = 60.0


@dataclass(slots=True)
class Life:
    """One process of a caller.

    Attributes:
        history: What it wrote.
        was_killed: Whether its end was not its own.
        exit_code: Of its process; None while it runs.
    """

    history: Path
    was_killed: bool = False
    exit_code: int | None = None


class Caller:
    """One of them, which is away until it is started.

    Attributes:
        lives: Its processes, in order.
        place: Where they run.
    """

    def __init__(self, place: Place, plan: Callable[[int], Plan], log: Path) -> None:
        """Take where it is, what each of its lives asks, and where goes what it says."""
        self.lives: list[Life] = []
        self.place = place
        self._plan = plan
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, if it is away."""
        if self._process is not None:
            return
        plan = self._plan(len(self.lives))
        self.lives.append(Life(plan.history))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.place.command(sys.executable, "-m", "survival.caller"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=processes.variables(),
                start_new_session=True,
            )
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        with self._process.stdin as pipe:
            pipe.write(msgspec.json.encode(plan))

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self.lives[-1].was_killed = self._process.poll() is None
            self._process.kill()
            self._over()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is there."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Let it ask no more, and wait until all that it asked has ended."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its history says nothing of the end of what it asked, which is told
        self._over()

    def _over(self) -> None:
        assert self._process is not None  # noqa: S101 - who calls this has it
        self.lives[-1].exit_code = self._process.wait()
        self._process = None


def stop_all(callers: Sequence[Caller]) -> None:
    """Let all ask no more, at the same time."""
    for caller in callers:
        caller.signal(signal.SIGCONT)
        caller.signal(signal.SIGTERM)
    for caller in callers:
        caller.stop()
