"""A subcommand of `headrace` that serves HTTP on loopback, as a process that runs for a while.

It knows that such a process answers on /health/ready once it can serve. It does not know what else it is asked.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from economics.processes import ProcessFailed

from online.http_traffic import Connection, request

HEADRACE = (sys.executable, "-m", "headrace")
_START_S, _STOP_S = 20.0, 10.0
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Served:
    """One that can serve.

    Attributes:
        port: On loopback.
        pid: Of the process.
    """

    port: int
    pid: int


@asynccontextmanager
async def running(port: int, command: str, *flags: str) -> AsyncIterator[Served]:
    """Run one while the context lasts.

    Args:
        port: That the flags tell it.
        command: The subcommand.
        flags: Of it.

    Raises:
        ProcessFailed: It ended before it was ready, or was not ready in time.
    """
    process = await asyncio.create_subprocess_exec(*HEADRACE, command, *flags, start_new_session=True)
    try:
        await _ready(process, port, command)
        yield Served(port, process.pid)
    finally:
        await _stop(process)


async def _ready(process: asyncio.subprocess.Process, port: int, command: str) -> None:
    connection, question = Connection(port), request("/health/ready", None)
    try:
        async with asyncio.timeout(_START_S):
            while process.returncode is None:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    status, _ = await connection.ask(question)
                    if status == 200:
                        return
                await asyncio.sleep(_LOOK_EVERY_S)  # of another process there is nothing to wait on
    except TimeoutError:
        raise ProcessFailed(f"headrace {command} was not ready after {_START_S:g} s") from None
    finally:
        connection.close()
    raise ProcessFailed(f"headrace {command} ended with exit code {process.returncode} before it was ready")


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
