"""The floor under the message path: the same hops by nats-py and JetStream, and nothing at the end of them.

It knows a call of two processes: published to a NATS stream in memory, pulled, answered on an inbox, acknowledged. What
the message path takes beyond that is ours; what this takes is the broker's, the client library's and the machine's.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nats
from economics import processes
from economics.bare_echo import REPLY_TO, SUBJECT
from headrace_workers import event_loop
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

_WARM_UP = 0.2  # of the time that is measured
_ACKS, _REPLIES = "bare.acks", "bare.replies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is asked.

    Attributes:
        url: Of the nats-server.
        num_bytes: Of a message.
        seconds: How long to call.
    """

    url: str
    num_bytes: int
    seconds: float


async def run(plan: Plan) -> list[float]:
    """Durations of calls in ms, one call at a time."""
    command = (sys.executable, "-m", "economics.bare_echo", plan.url)
    # Modules are found from where a process runs.
    echo = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    try:
        if echo.stdout is None or await echo.stdout.readline() != b"ready\n":
            raise processes.ProcessFailed(f"economics.bare_echo ended with exit code {await echo.wait()}")
        connection = await nats.connect(plan.url)
        try:
            await _call(connection, plan, plan.seconds * _WARM_UP)
            return await _call(connection, plan, plan.seconds)
        finally:
            await connection.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            echo.kill()
        await echo.wait()


async def _call(connection: NatsClient, plan: Plan, seconds: float) -> list[float]:
    replies: asyncio.Queue[bytes] = asyncio.Queue()

    async def put(message: Msg) -> None:
        replies.put_nowait(message.data)

    async def ignore(_: Msg) -> None:
        """The PubAck: a client of ours looks at it, off the way of the reply."""

    subscriptions = [
        await connection.subscribe(_REPLIES, cb=put),
        await connection.subscribe(_ACKS, cb=ignore),
    ]
    durations_ms: list[float] = []
    until = time.perf_counter() + seconds
    while not durations_ms or time.perf_counter() < until:
        started = time.perf_counter()
        await connection.publish(SUBJECT, bytes(plan.num_bytes), reply=_ACKS, headers={REPLY_TO: _REPLIES})
        await replies.get()
        durations_ms.append((time.perf_counter() - started) * 1000)
    for subscription in subscriptions:
        await subscription.unsubscribe()
    return durations_ms


def main() -> None:
    """Do what the standard input asks."""
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        processes.reply(runner.run(run(processes.plan(Plan))))


if __name__ == "__main__":
    main()
