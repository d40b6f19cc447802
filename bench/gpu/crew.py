"""All processes, and one inbox for what they say.

It knows who is there. It does not know what they are told.
"""

import queue
import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu.finding import Message
from gpu.process import Process


class Crew:
    """Use it as a context manager; the end ends all processes."""

    def __init__(self, command: list[str], log: Path) -> None:
        """Begin without any.

        Args:
            command: The program that each of them runs, with its arguments but for the name of the backend at the end.
            log: A file to write at the end, for what they printed besides their messages.
        """
        self._command = command
        self._log = log
        self._inbox: queue.SimpleQueue[tuple[Process, Message | None]] = queue.SimpleQueue()
        self._logs = tempfile.TemporaryDirectory(prefix="headrace-bench-")
        self._numbers = count()
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.end()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.write_text("".join(f"== {process.backend}\n{process.printed()}\n" for process in self._processes))
        self._logs.cleanup()

    def start(self, backend: str) -> Process:
        """Start a process; it prepares, and says `Ready` by itself."""
        log = Path(self._logs.name) / f"{next(self._numbers)}.log"
        process = Process(backend, [*self._command, backend], log, lambda *said: self._inbox.put(said))
        self._processes.append(process)
        return process

    def receive(self, timeout_s: float) -> tuple[Process, Message | None] | None:
        """The next message of anybody, with None for one who will say no more; None where nobody speaks in time."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None
