"""A process that is given a plan and goes about it until it is told to stop, such as a caller.

It knows how it is started and ended, whatever state it is in. It does not know what it does.
"""

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import msgspec
from economics import processes

_STOP_S = 60.0  # a call may have begun just now, and have much time


@contextmanager
def errand(
    module: str,
    plan: object,
    *,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a module that reads a plan from its standard input; left once it has ended, which it is told to.

    Args:
        module: Its name, from bench/.
        plan: A dataclass, sent as JSON.
        log: For what it says; None is our standard error.
        environment: Variables besides those of this process.
        prefix: A command that becomes the one after it, such as where it is to run.
    """
    process = subprocess.Popen(
        [*prefix, *processes.command(module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=processes.variables(environment),
        start_new_session=True,
    )
    try:
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(BrokenPipeError), process.stdin as stdin:  # it has ended already: its owner sees that
            stdin.write(msgspec.json.encode(plan))
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> int:
    """Tell it to stop and wait, a frozen one too; returns its exit code."""
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        return process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
