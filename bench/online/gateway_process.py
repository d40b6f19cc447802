"""`headrace gateway` as a process: whether there is such a command, and one that runs for a while.

It knows its flags. It does not know what it is asked.
"""

import asyncio
import subprocess
from contextlib import AbstractAsyncContextManager

from online import web_process
from online.web_process import HEADRACE, Served

MODEL = "embedder"  # as models.py names the directory, and the worker the model


async def is_there() -> bool:
    """Whether this Headrace has a gateway, and what it needs is installed."""
    process = await asyncio.create_subprocess_exec(
        *HEADRACE, "gateway", "--help", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return await process.wait() == 0


def running(url: str) -> AbstractAsyncContextManager[Served]:
    """Run one while the context lasts.

    Args:
        url: Of nats-server.

    Raises:
        ProcessFailed: It ended before it was ready, or was not ready in time.
    """
    port = web_process.free_port()
    return web_process.running(port, "gateway", "--nats", url, "--host", "127.0.0.1", "--port", str(port))
