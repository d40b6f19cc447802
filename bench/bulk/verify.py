"""`headrace job verify`, from outside, which is to look and mend nothing.

It knows how it is run, and that its exit code is what it says.
"""

import asyncio
import sys


async def verify(job: str, url: str) -> int:
    """Audit a job; 0 says that the sink has all of it.

    Args:
        job: Its name.
        url: Of nats-server.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace",
        *("job", "verify", job, "--no-repair", "--json", "--nats", url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=sys.stderr,
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
