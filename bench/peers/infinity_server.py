"""Infinity as a child process: started on a free port, and stopped whatever happens.

It knows Infinity's command line, and how uvicorn says that it is ready. It does not know what is sent to it.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, cast

from environments import python_of
from serve import Flags

_MAIN = Path(__file__).with_name("infinity_main.py")
_READY = re.compile(rb"Uvicorn running on (http://\S+)")
_START_S = 200.0
_STOP_S = 10.0
_LAST_WORDS = 500


@contextmanager
def running(flags: Flags, batch: int) -> Iterator[str]:
    """An Infinity that serves both models, while the context lasts; its address.

    Args:
        flags: As the adapter's.
        batch: Texts in one step at most.

    Raises:
        FileNotFoundError: Its environment is not installed.
        RuntimeError: It did not start; with its last words.
    """
    log = flags.work / "infinity.log"
    process = subprocess.Popen(
        [python_of("infinity"), _MAIN, *_arguments(flags, batch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | _environment(flags),
        start_new_session=True,
    )
    output = cast("IO[bytes]", process.stdout)
    said: SimpleQueue[str | None] = SimpleQueue()
    reader = Thread(target=_read, args=(output, log, said))
    reader.start()
    try:
        yield _address(said, log)
    finally:
        _stop(process)
        reader.join()
        output.close()


def _arguments(flags: Flags, batch: int) -> list[str]:
    models = ["--model-id", str(flags.embedder), "--model-id", str(flags.scorer)]
    # Port 0: the system picks a free one, and nobody can take it in between.
    return [
        *("v2", *models, "--engine", "torch", "--device", "cpu", "--dtype", flags.dtype),
        *("--no-bettertransformer", "--batch-size", str(batch), "--host", "127.0.0.1", "--port", "0"),
    ]


def _environment(flags: Flags) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": str(flags.threads),
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "INFINITY_HOME": str(flags.work),  # for a cache that it wants, used or not
        "PYTHONUNBUFFERED": "1",
    }


def _read(output: IO[bytes], log: Path, said: "SimpleQueue[str | None]") -> None:
    """Write all that it says to the log, and tell when it is ready or has ended."""
    with log.open("wb", buffering=0) as file:
        for line in output:
            file.write(line)
            if match := _READY.search(line):
                said.put(match[1].decode())
    said.put(None)


def _address(said: "SimpleQueue[str | None]", log: Path) -> str:
    try:
        address = said.get(timeout=_START_S)
    except Empty:
        raise RuntimeError(f"Infinity was not ready after {_START_S:g} s; see {log}") from None
    if address is None:
        words = log.read_text("utf-8", errors="replace").strip()[-_LAST_WORDS:]
        raise RuntimeError(f"Infinity ended before it was ready; see {log}; its last words: …{words}")
    return address


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it, or what it has started and left behind
        process.wait()
        cast("IO[bytes]", process.stdin).close()
