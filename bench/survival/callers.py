"""Callers that are killed and replaced, frozen and cut off; each life of one has a history of its own.

It knows their processes. What they ask is caller.py's, what their histories prove checker.py's. Its methods block.
"""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from survival.caller import Plan
from survival.errand import errand
from survival.place import Place


@dataclass(slots=True)
class Life:
    """One process of a caller.

    Attributes:
        history: What it wrote.
        was_killed: Whether its end was not its own.
    """

    history: Path
    was_killed: bool = False


class Caller:
    """One of them, which is away until it is started.

    Attributes:
        lives: Its processes, in order.
        place: Where they run.
    """

    def __init__(
        self, place: Place, plan: Callable[[int], Plan], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Take where it is, what each of its lives asks, where goes what it says, and variables of its own."""
        self.lives: list[Life] = []
        self.place = place
        self._plan = plan
        self._log = log
        self._environment = environment
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, if it is away."""
        if self._process is None:
            plan = self._plan(len(self.lives))
            self.lives.append(Life(Path(plan.history)))
            log = self._stack.enter_context(self._log.open("ab"))
            asking = errand("survival.caller", plan, log=log, environment=self._environment, prefix=self.place.prefix)
            self._process = self._stack.enter_context(asking)

    def kill(self) -> None:
        """End it without a word, if it is there."""
        if self._process is not None:
            self.lives[-1].was_killed = self._process.poll() is None
            self._process.kill()
            self.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is there."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Let it ask no more, and wait until all that it asked has ended; frozen, it goes on first."""
        self.signal(signal.SIGCONT)
        self._stack.close()
        self._process = None


def stop_all(callers: Sequence[Caller]) -> None:
    """Let all ask no more, at the same time."""
    for caller in callers:
        caller.signal(signal.SIGCONT)
        caller.signal(signal.SIGTERM)
    for caller in callers:
        caller.stop()
