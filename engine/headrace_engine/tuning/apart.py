"""A function run in a process of its own, within a time.

There it may hang, crash, fill the memory or spoil its CUDA context for good, and all that it held is given back at its
end. This module knows processes and how to start `apart_child.py`. It does not know what is run.
"""

import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

logger = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("apart_child.py")
_MAX_CHARS = 300  # of what is passed on from it

T = TypeVar("T")


class Lost(RuntimeError):
    """There is no result; the message says why."""


class Apart(Protocol):
    """How a function is run."""

    def __call__(self, run: Callable[..., T], *arguments: Any, timeout_s: float) -> T:
        """Run it: see `apart`."""


def apart(run: Callable[..., T], *arguments: Any, timeout_s: float) -> T:
    """Run a function in a new process, and wait for it.

    Args:
        run: A function of a module; it is found there by its name.
        arguments: For it. They and its result go through pickle.
        timeout_s: How long the process may take, its start included; then it is ended, and compilers that it started.

    Raises:
        Lost: The function raised, or its process ended or was ended before it returned.
    """
    request = pickle.dumps((run, arguments))
    # Found as they are here, wherever the modules came from; -P, so that this folder hides none of them.
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            env={**os.environ, **path},
            process_group=0,
        ) as process,
    ):
        try:
            answer, _ = process.communicate(request, timeout_s)
        except subprocess.TimeoutExpired:
            message = f"there was no result within {timeout_s:.0f} s"
            raise Lost(message) from None
        finally:
            # Whatever the reason: an interrupt does not reach a group of its own.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            said = _read(printed)
            if said:
                logger.info("what ran apart printed:\n%s", said)
        if not answer:
            raise Lost(_last_words(process.returncode, said))
    try:
        has_returned, result = pickle.loads(answer)  # noqa: S301 - our own process wrote it
    except (pickle.UnpicklingError, EOFError):  # it was ended while it wrote
        raise Lost(_last_words(process.returncode, said)) from None
    if not has_returned:
        raise Lost(result)
    returned: T = result
    return returned


def _read(printed: IO[bytes]) -> str:
    printed.seek(0)
    return printed.read().decode("utf-8", "replace").strip()


def _last_words(code: int, said: str) -> str:
    last = f"; it printed last: {said.splitlines()[-1].strip()[:_MAX_CHARS]}" if said else ""
    return f"its process ended with {_code(code)}{last}"


def _code(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"status {code}"
    except ValueError:
        return f"status {code}"
