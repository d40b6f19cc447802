"""The process of one backend, seen from outside: started, told what to do, heard, ended.

It knows pipes and signals. It does not know what the process is told.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpu.finding import Message, from_line

# Compiled kernels are kept for the next process, as FlashInfer keeps its own anyway.
_KEEP_COMPILED = {"FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1"}
_PATIENCE_S = 3


class Process:
    """A process that says one message a line.

    Attributes:
        backend: The name of its backend.
    """

    def __init__(
        self, backend: str, command: list[str], log: Path, receive: Callable[["Process", Message | None], object]
    ) -> None:
        """Start it.

        Args:
            backend: The name of its backend.
            command: The program and its arguments.
            log: A file for all that it prints besides messages.
            receive: Called by a thread with each message, and with None once there will be no more.
        """
        self.backend = backend
        self._log = log
        self._receive = receive
        with log.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **_KEEP_COMPILED},
                process_group=0,  # so that compilers that it starts can be ended with it
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, line: str) -> None:
        """Send a line; one that is gone does not hear it, which its end will say."""
        stdin = self._popen.stdin
        if stdin is not None:
            with suppress(OSError):
                stdin.write(f"{line}\n")
                stdin.flush()

    def end(self) -> None:
        """End it, at once if it does not end by itself, and all that it started."""
        stdin = self._popen.stdin
        if stdin is not None:
            with suppress(OSError):
                stdin.close()
        # Once it is waited for, its number may be another's.
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._reader.join(_PATIENCE_S)
        if self._popen.stdout is not None and not self._reader.is_alive():
            self._popen.stdout.close()

    def printed(self) -> str:
        """All that it printed besides messages, so far."""
        return self._log.read_text("utf-8", "replace")

    def last_words(self) -> str:
        """How it ended, and the last line of what it printed."""
        code = self._popen.poll()
        ended = "its process is alive" if code is None else f"its process ended with {_code(code)}"
        lines = [line for line in self.printed().splitlines() if line.strip()]
        return f"{ended}; it printed last: {lines[-1].strip()[:300]}" if lines else ended

    def _read(self) -> None:
        for line in self._popen.stdout or ():
            try:
                message = from_line(line)
            except ValueError:
                continue
            self._receive(self, message)
        self._popen.wait()
        self._receive(self, None)


def _code(code: int) -> str:
    """A signal by its name."""
    try:
        return signal.Signals(-code).name if code < 0 else str(code)
    except ValueError:
        return str(code)
