"""Processes that run modules of bench/: started for a while, and ended whatever happens.

It knows how they are started, how they say that they are ready, and that some are asked by JSON. It does not know what
they do. Each has a session of its own, so that Ctrl-C reaches the parent alone.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import msgspec

_BENCH = Path(__file__).parents[1]
_STOP_S = 40.0

T = TypeVar("T")


class ProcessFailed(Exception):
    """A process of ours ended before its time; the text says which."""


async def ask(
    module: str,
    plan: object,
    kind: type[T],
    environment: Mapping[str, str] | None = None,
    *,
    prefix: Sequence[str] = (),
) -> T:
    """Run a module that reads a plan from its standard input and writes what it found to its standard output.

    Args:
        module: Its name, from bench/.
        plan: A dataclass, sent as JSON.
        kind: What the answer is read as.
        environment: Variables besides those of this process.
        prefix: A command that becomes the one after it, such as where it is to run.

    Raises:
        ProcessFailed: It ended otherwise; it said why on the standard error.
    """
    process = await asyncio.create_subprocess_exec(
        *prefix,
        *command(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables(environment),
        start_new_session=True,
    )
    try:
        answer, _ = await process.communicate(msgspec.json.encode(plan))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ProcessFailed(f"{module} ended with exit code {process.returncode}: it said why above")
    return msgspec.json.decode(answer, type=kind)


def plan(kind: type[T]) -> T:
    """The plan of this process, which was started by `ask`."""
    return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)


def reply(found: object) -> None:
    """What this process, which was started by `ask`, has found."""
    sys.stdout.buffer.write(msgspec.json.encode(found))


@contextmanager
def null_worker(model: str, url: str, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker with an engine that answers at once; see `worker`.

    Args:
        model: As null_worker.py takes it.
        url: Of the nats-server.
        options: More flags of null_worker.py.

    Raises:
        ProcessFailed: It did not start; it said why on the standard error.
    """
    with worker("economics.null_worker", model, url, *options) as process:
        yield process


@contextmanager
def worker(
    module: str,
    model: str,
    url: str,
    *options: str,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a module that is a worker; entered once it is ready, left once it has drained.

    Args:
        module: Its name, from bench/.
        model: As the module takes it.
        url: Of the nats-server.
        options: More flags of it.
        log: For what it says; None is our standard error.
        environment: As `ask` takes it.
        prefix: As `ask` takes it.

    Raises:
        ProcessFailed: It did not start; it said why there.
    """
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as ready:
        try:
            process = subprocess.Popen(
                [*prefix, *command(module), model, "--nats", url, "--ready-fd", str(writer), *options],
                stderr=log,
                pass_fds=(writer,),
                env=variables(environment),
                start_new_session=True,
            )
        finally:
            os.close(writer)
        try:
            if ready.read(1) != b"\n":
                raise ProcessFailed(f"{module} ended with exit code {process.wait()} before it was ready")
            yield process
        finally:
            _stop(process)


def command(module: str) -> list[str]:
    """That runs a module of bench/."""
    return [sys.executable, "-m", module]


def variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a process that finds the modules of bench/: this process's, and some besides."""
    known = os.environ.get("PYTHONPATH")
    path = str(_BENCH) if known is None else f"{_BENCH}{os.pathsep}{known}"
    return {**os.environ, "PYTHONPATH": path, **(more or {})}


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
