"""`python -m survival.stranger`: a process that sends what no client would, and keeps what it sent and was told.

It knows the connection. What it sends is made by forger.py. It goes on until its time is over or SIGTERM comes.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from economics import processes
from headrace import Client, HeadraceError
from headrace_contracts import DecodeError, ErrorReply, ModelSpec, connection, decode_reply, subjects
from headrace_workers import event_loop
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from survival.forger import Forger, Forgery
from survival.raw_line import RawLine

_PAUSE_S = 0.2
_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a stranger is asked.

    Attributes:
        url: Of nats-servers, with commas between.
        model: Served name.
        report: File that says at the end what was sent and what was told.
        seed: Of all that is random.
        rate: Messages a second.
        messages: After which it ends; None goes on until SIGTERM.
        workers: Names of those to be told nonsense themselves.
    """

    url: str
    model: str
    report: str
    seed: int = 0
    rate: float = 20.0
    messages: int | None = None
    workers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it.

    Attributes:
        sent: Messages by kind.
        lost: Those that could not be sent, for want of a connection or since the client would not.
        told: Replies of workers by code; `ok` are results.
        unreadable: Replies of workers that cannot be read.
    """

    sent: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    told: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0

    @classmethod
    def read(cls, file: Path) -> "Report":
        """Read what `Stranger` has written."""
        return msgspec.json.decode(file.read_bytes(), type=cls)


class Stranger:
    """Sends, and hears what he is told."""

    def __init__(self, nats: NatsClient, url: str, spec: ModelSpec, seed: int, workers: Sequence[str] = ()) -> None:
        """Take a connection, where it leads, and what Forger takes."""
        self._nats = nats
        self._line = RawLine(url)
        self._inbox = subjects.inbox(f"stranger-{seed}")
        self._sent: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._lost = self._unreadable = 0
        self.forger = Forger(spec, f"{self._inbox}.x", seed, workers)

    async def listen(self) -> None:
        """Hear what is told from now on."""
        await self._nats.subscribe(f"{self._inbox}.>", cb=self._on_reply)

    async def send(self, forged: Forgery) -> None:
        """Publish one."""
        try:
            if forged.raw is not None:
                await self._line.write(forged.raw)
            else:
                await self._nats.publish(forged.subject, forged.body, headers=dict(forged.headers) or None)
        except (NatsError, OSError, EOFError, ValueError):
            self._lost += 1
        else:
            self._sent[forged.kind] += 1

    async def close(self) -> None:
        """Send no more."""
        await self._line.close()

    async def _on_reply(self, message: Msg) -> None:
        try:
            reply = decode_reply(message.data)
        except DecodeError:
            self._unreadable += 1
        else:
            self._told[str(reply.code) if isinstance(reply, ErrorReply) else "ok"] += 1

    @property
    def report(self) -> Report:
        """What came of it so far."""
        return Report(sent=dict(self._sent), lost=self._lost, told=dict(self._told), unreadable=self._unreadable)


async def run(plan: Plan) -> Report:
    """Do what the plan says."""
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    spec = await _spec(plan, stop)
    if spec is None:
        return Report()
    nats, _ = await connection.connect(
        plan.url, name="stranger", inbox=subjects.inbox("stranger"), timeout_s=_CONNECT_S
    )
    try:
        stranger = Stranger(nats, plan.url, spec, plan.seed, plan.workers)
        await stranger.listen()
        for number, forged in enumerate(stranger.forger.endless()):
            if number == plan.messages or await _is_set(stop, 1 / plan.rate):
                break
            await stranger.send(forged)
        await stranger.close()
        return stranger.report
    finally:
        await connection.close(nats)


async def _spec(plan: Plan, stop: asyncio.Event) -> ModelSpec | None:
    """What there is to be broken, once it can be read; None if it is to stop meanwhile."""
    while not stop.is_set():
        with suppress(HeadraceError):
            async with await Client.connect(plan.url) as client:
                for spec in await client.models():
                    if spec.name == plan.model:
                        return spec
        await _is_set(stop, _PAUSE_S)
    return None


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def main() -> None:
    """Do what the standard input asks."""
    plan = processes.plan(Plan)
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        report = runner.run(run(plan))
    Path(plan.report).write_bytes(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
