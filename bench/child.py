"""A contender's process, seen from outside: start it, ask it, count what it costs, stop it whatever happens.

It knows the protocol of peers/serve.py and how long to wait. It does not know what is measured. A contender that does
not start, breaks off, falls silent or says something else than an answer is `Broken`, with its last words.
"""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import psutil
from contenders import Entrant
from models import Models

_START_S = 240.0
_STOP_S = 15.0
_MAX_TEXT = 400
_READ_BYTES = 1 << 20
_DISTURBING = frozenset({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "PYTHONPATH"})


class Broken(Exception):
    """A contender did not do what it was asked; the text says what it said last."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a contender has used.

    Attributes:
        cpu_s: Processor seconds of all its processes that live.
        memory_mib: Resident memory of all of them.
    """

    cpu_s: float
    memory_mib: float


class Child:
    """One running contender.

    Attributes:
        facts: What it said when it was ready: versions, settings.
        load_s: Seconds until then.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        """Use `started`."""
        self._process = process
        self._stdin, self._stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        self._log = log
        self._unread = b""
        self._is_mute = False
        # All that were ever seen: some have sessions of their own, and outlive a parent that dies.
        self._family = {psutil.Process(process.pid)}
        self.facts: Mapping[str, Any] = {}
        self.load_s = 0.0

    def ask(self, command: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Have a command done.

        Args:
            command: As peers/serve.py takes it.
            timeout_s: How long it may take.

        Raises:
            Broken: It failed, ended, or took longer.
        """
        try:
            self._stdin.write(json.dumps(command).encode() + b"\n")
            self._stdin.flush()
        except OSError as error:
            raise Broken(self._obituary()) from error
        return self._answer("done", timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether it may be asked again; not after silence or nonsense: a late answer would be taken for the next."""
        return not self._is_mute and self._process.poll() is None

    def cost(self) -> Cost:
        """What all its processes have used so far."""
        cpu_s = memory = 0.0
        for process in self._living():
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory += process.memory_info().rss
        return Cost(cpu_s, memory / 2**20)

    def stop(self) -> None:
        """End it: the end of its stdin does; what is left of it and its children after a while is killed."""
        self._living()
        with suppress(OSError):
            self._stdin.close()
        _, alive = psutil.wait_procs(self._family, _STOP_S)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, _STOP_S)
        self._process.wait()
        self._stdout.close()

    def _wait_until_ready(self, timeout_s: float) -> None:
        begun = time.perf_counter()
        self.facts = self._answer("ready", timeout_s)
        self.load_s = time.perf_counter() - begun
        self._living()

    def _answer(self, kind: str, timeout_s: float) -> Mapping[str, Any]:
        line = self._line(timeout_s)
        message: object = None
        with suppress(ValueError):
            message = json.loads(line)
        match message:
            case {"failed": reason}:
                raise Broken(_shortened(str(reason)))
            case dict() if isinstance(message.get(kind), dict):
                return message[kind]  # type: ignore[no-any-return]
        self._is_mute = True
        raise Broken(f"it said {line[:100]!r}, which is no answer")

    def _line(self, timeout_s: float) -> bytes:
        """The next line, however long; never blocks beyond the timeout."""
        until = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self._is_mute = True
                    raise Broken(f"it did not answer within {timeout_s:g} s")
                read = os.read(self._stdout.fileno(), _READ_BYTES)
                if not read:
                    raise Broken(self._obituary())
                self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _obituary(self) -> str:
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        last_words = _shortened(self._log.read_text("utf-8", errors="replace").strip())
        return f"it ended with exit code {code}: {last_words or 'without a word'}"

    def _living(self) -> set[psutil.Process]:
        """Its process and all that came of it, as far as they live; they are remembered."""
        with suppress(psutil.Error):
            self._family.update(psutil.Process(self._process.pid).children(recursive=True))
        return {process for process in self._family if process.is_running()}


def _environment(threads: int) -> dict[str, str]:
    """This process's, without what a shell may have set that changes speed, and the same number of threads for all."""
    kept = {name: value for name, value in os.environ.items() if name not in _DISTURBING}
    return kept | {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")}


def _shortened(text: str) -> str:
    """The beginning, which says what failed, and the end, which of a traceback says why."""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 4]} … {text[-_MAX_TEXT * 3 // 4 :]}"


@contextmanager
def started(
    entrant: Entrant, models: Models, *, threads: int, work: Path, environment: Mapping[str, str]
) -> Iterator[Child]:
    """Run a contender while the context lasts; entered once it is ready.

    Args:
        entrant: Who.
        models: What it is to load.
        threads: That it may compute with.
        work: Its directory between runs; its log goes there.
        environment: Variables besides those of this process.

    Raises:
        Broken: It did not start.
    """
    command = [entrant.python, entrant.script, "--embedder", models.embedder, "--scorer", models.scorer]
    command += ["--dtype", entrant.dtype, "--threads", str(threads), "--work", work]
    command += ["--url", entrant.url] if entrant.url else []
    log = work / f"{entrant.name}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**_environment(threads), **environment},
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop it in order
        )
    child = Child(process, log)
    try:
        child._wait_until_ready(_START_S)  # noqa: SLF001 - it is ready once and here
        yield child
    finally:
        child.stop()
