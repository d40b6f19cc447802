"""A process of `headrace reindex` that is started again for as long as its job is not done.

It knows its exit codes and reads the progress that it writes. It does not know what it is asked to do.
"""

import asyncio
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from economics.processes import variables

DONE, SOME_FAILED = 0, 3
_LAST_WORDS = 15
_LINE = 1 << 24  # bytes of one, at most

Line: TypeAlias = Mapping[str, Any]


class NotDone(Exception):
    """The job was not done after so many tries; the text has the last words."""


class Reindex:
    """One process after the other, all with the same command.

    Attributes:
        lines: Of progress, of all processes.
        exits: Their exit codes, negative for signals.
        pids: Their ids.
        words: What the last ones said besides.
        hold: Of the event loop: see held.py; of the last process that ended by itself.
    """

    def __init__(
        self,
        *arguments: str,
        max_tries: int = 1,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Do not start yet.

        Args:
            arguments: Of `headrace reindex`.
            max_tries: Processes, at most.
            log: Where all that they say is kept.
            environment: Variables besides those of this process.
            prefix: A command that becomes the one after it, such as where they are to run.
        """
        self.lines: list[Line] = []
        self.exits: list[int] = []
        self.pids: list[int] = []
        self.words: deque[str] = deque(maxlen=_LAST_WORDS)
        self.hold: Line = {}
        self.began_s = self.ended_s = 0.0
        self._arguments = arguments
        self._max_tries = max_tries
        self._log = log
        self._environment = variables(environment)
        self._prefix = prefix
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs, if one does."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    @property
    def rows_done(self) -> int:
        """Of the job, as far as the last line says."""
        return int(self.lines[-1]["rows_done"]) if self.lines else 0

    async def run(self) -> int:
        """Run until the job is done; returns the exit code then.

        Raises:
            NotDone: It never was.
        """
        self.began_s = time.perf_counter()
        while len(self.exits) < self._max_tries:
            code = await self._once()
            self.ended_s = time.perf_counter()
            self.exits.append(code)
            if code in {DONE, SOME_FAILED}:
                return code
        said = "\n".join(self.words)
        raise NotDone(f"headrace reindex ended with {self.exits[-5:]} after {len(self.exits)} tries:\n{said}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process that runs, if one does."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _once(self) -> int:
        self._process = process = await asyncio.create_subprocess_exec(
            *self._prefix,
            sys.executable,
            "-m",
            "bulk.held",
            "reindex",
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE,
            env=self._environment,
            start_new_session=True,
        )
        self.pids.append(process.pid)
        try:
            assert process.stderr is not None  # noqa: S101 - a pipe was asked for
            async for raw in process.stderr:
                self._read(raw.decode(errors="replace").rstrip())
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _read(self, text: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as log:
                print(f"{time.time():.3f} {text}", file=log)
        line = _json(text)
        if line is None:
            self.words.append(text)
        elif "rows_done" in line:
            self.lines.append(line)
        elif "longest_hold_ms" in line:
            self.hold = line


def _json(text: str) -> Line | None:
    if not text.startswith("{"):
        return None
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return None


def command(
    documents: Path, sink: Path, *, url: str, model: str, job: str, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Arguments of `headrace reindex` for a corpus of corpus.py."""
    what = (str(documents), "--to", f"parquet:{sink}", "--model", model, "--job", job, "--id", "id")
    return (*what, "--nats", url, "--progress", "json", *options)
