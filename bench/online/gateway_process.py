"""`headrace gateway` as a process: whether there is such a command, and one that runs for a while.

It knows its flags, and that it answers on /health/ready once it can serve. It does not know what it is asked.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from economics.processes import ProcessFailed

from online.http_traffic import Connection, request

MODEL = "embedder"  # as models.py names the directory, and the worker the model
_START_S, _STOP_S = 20.0, 10.0
_LOOK_EVERY_S = 0.05
_COMMAND = (sys.executable, "-m", "headrace", "gateway")


async def is_there() -> bool:
    """Whether this Headrace has a gateway, and what it needs is installed."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, "--help", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return await process.wait() == 0


@asynccontextmanager
async def running(url: str) -> AsyncIterator[int]:
    """Run one while the context lasts; gives its port, on loopback.

    Args:
        url: Of nats-server.

    Raises:
        ProcessFailed: It ended before it was ready, or was not ready in time.
    """
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, "--nats", url, "--host", "127.0.0.1", "--port", str(port), start_new_session=True
    )
    try:
        await _ready(process, port)
        yield port
    finally:
        await _stop(process)


async def _ready(process: asyncio.subprocess.Process, port: int) -> None:
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
        raise ProcessFailed(f"headrace gateway was not ready after {_START_S:g} s") from None
    finally:
        connection.close()
    raise ProcessFailed(f"headrace gateway ended with exit code {process.returncode} before it was ready")


def _free_port() -> int:
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
