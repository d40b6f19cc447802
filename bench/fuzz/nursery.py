"""Processes that load one model directory each, under limits, out of one that has everything imported.

It knows how such a process is asked, and how its end is read. It does not know checkpoints: checkpoint_child.py reads
them.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

_CHILD = Path(__file__).with_name("checkpoint_child.py")


@dataclass(frozen=True, slots=True)
class Born:
    """What became of one process.

    Attributes:
        kind: "loaded", "refused", "raised", or how the process ended by itself.
        text: What the error says.
        grown_mib: Most memory that it took beyond what it was born with.
    """

    kind: str
    text: str
    grown_mib: float


class Nursery:
    """Starts the one that has everything imported, with the first directory."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def load(self, folder: Path) -> Born:
        """What becomes of loading a directory."""
        process = self._started()
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        stdin.write(json.dumps(str(folder)).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self._process = None
            raise RuntimeError(f"This is a bug: the nursery itself ended with {process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return Born(found["kind"], found["text"], found["grown_mib"])

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            cast("IO[bytes]", self._process.stdin).close()
            self._process.wait()
            cast("IO[bytes]", self._process.stdout).close()
            self._process = None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            # The limits of this process are not for that one: it sets its own.
            threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            self._process = subprocess.Popen(
                [sys.executable, str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **threads},
            )
        return self._process
