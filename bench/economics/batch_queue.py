"""The batch queue of one model, in a broker of its own: filled, held, and let out at will.

It knows the NATS stream, its consumer and where they lie on disk. It does not know who takes chunks out. While it is
held, the broker hands out nothing (a paused consumer, nats-server 2.11), so that workers may stand ready before the
measurement begins.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from economics import processes, publisher
from economics.meter import Reading
from economics.null_engine import NullEngine
from headrace import local
from headrace_contracts import ModelSpec, connection, limits, subjects, topology
from headrace_workers import WorkerConfig
from headrace_workers.provision import Provision, Topology
from headrace_workers.spec import describe
from nats.aio.client import Client as NatsClient

_FOR_EVER = timedelta(days=1)
_LOOK_FIRST_S, _LOOK_EVERY_S = 0.005, 0.05
_START_S = 15.0
_CONNECT_S, _API_S = 10.0, 60.0
# So many are published by two processes: it takes two to keep a broker busy.
_MANY = 200_000
# Bytes of a chunk of one sequence in the store besides its token ids: subject, headers, map keys, the record's head.
_AROUND_BYTES = 420
# What the backlog takes, and twice as much for whoever else uses the disk.
_ROOM = 3


class NoRoom(Exception):
    """The disk has too little room for a backlog; the text says how much it must have."""


def check_room(chunks: int, tokens: int, free_bytes: int) -> None:
    """Refuse a backlog that might fill the disk.

    Args:
        chunks: That will wait.
        tokens: Of each.
        free_bytes: Of the disk.

    Raises:
        NoRoom: It has not three times the room.
    """
    needed = _ROOM * chunks * (tokens * limits.TOKEN_BYTES + _AROUND_BYTES)
    if needed > free_bytes:
        raise NoRoom(
            f"a backlog of {chunks} chunks wants {needed / 2**30:.1f} GiB of disk free, three times what it takes, and "
            f"there are {free_bytes / 2**30:.1f}: choose a smaller one, or another disk by TMPDIR"
        )


@dataclass(frozen=True, slots=True)
class Drained:
    """What was taken out.

    Attributes:
        chunks: That were answered and acknowledged.
        used: Seconds, and processor seconds by name.
    """

    chunks: int
    used: Reading

    def plus(self, other: "Drained") -> "Drained":
        """Both together."""
        return Drained(self.chunks + other.chunks, self.used.plus(other.used))


class Queue:
    """A broker with one NATS stream.

    Attributes:
        url: Of the broker.
        pid: Of its process.
        store: Directory of what it keeps.
    """

    def __init__(self, server: local.Server, store: Path, nats: NatsClient, spec: ModelSpec) -> None:
        """Use `opened`."""
        self.url, self.pid, self.store = server.url, server.process.pid, store
        self._nats, self._spec = nats, spec
        self._stream = subjects.batch_stream(spec.name)
        self._published = 0

    @classmethod
    @asynccontextmanager
    async def opened(cls, model: str, max_chunk_tokens: int) -> "AsyncIterator[Queue]":
        """Start a broker, and make the queue in it, held; both are gone when the context ends.

        Args:
            model: Whose queue it is.
            max_chunk_tokens: As its workers will have it.
        """
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as temporary:
            store = Path(temporary)
            with local.server(store) as server:
                nats, _ = await connection.connect(
                    server.url, name="bench", inbox=subjects.inbox("bench"), timeout_s=_CONNECT_S
                )
                try:
                    spec = _spec(model, max_chunk_tokens, nats.max_payload)
                    queue = cls(server, store, nats, spec)
                    await Provision(nats, _topology(spec)).all()
                    await queue.hold()
                    yield queue
                    await queue._api(f"STREAM.DELETE.{queue._stream}")
                finally:
                    await nats.close()

    async def fill(self, chunks: int, tokens: int) -> float:
        """Publish until so many wait; returns chunks a second, 0 where enough were there.

        Args:
            chunks: That shall wait.
            tokens: Of each new one.

        Raises:
            NoRoom: The disk is too small.
            ProcessFailed: The broker refused a chunk.
        """
        missing = chunks - await self.depth()
        if missing <= 0:
            return 0.0
        check_room(missing, tokens, shutil.disk_usage(self.store).free)
        shares = [missing] if missing < _MANY else [missing // 2, missing - missing // 2]
        try:
            async with asyncio.TaskGroup() as tasks:
                publishing = [tasks.create_task(self._publish(share, tokens)) for share in shares]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return missing / max(task.result() for task in publishing)

    async def _publish(self, chunks: int, tokens: int) -> float:
        """Have a process publish; returns its seconds."""
        first, self._published = self._published, self._published + chunks
        plan = publisher.Plan(
            url=self.url,
            model=self._spec.name,
            fingerprint=self._spec.fingerprint,
            tokens=tokens,
            first=first,
            chunks=chunks,
        )
        return await processes.ask("economics.publisher", plan, float)

    async def depth(self) -> int:
        """Chunks that were not taken out, those in the hands of workers among them."""
        return int((await self._api(f"STREAM.INFO.{self._stream}"))["state"]["messages"])

    async def hold(self) -> None:
        """Hand out nothing more."""
        await self._pause(datetime.now(UTC) + _FOR_EVER)

    async def drain(self, pids: Mapping[str, Sequence[int]], at_most: int, seconds: float) -> Drained:
        """Let workers take chunks out, and meter from the first that is gone; then hold the queue again.

        Args:
            pids: Of the processes that are metered, by name.
            at_most: Chunks to take out; fewer than wait, so that it never runs dry.
            seconds: How long at most.

        Raises:
            TimeoutError: Nobody takes anything.
        """
        full = await self.depth()
        held = Reading.of(pids)
        await self._pause(None)
        try:
            first = await self._fallen_below(full, _START_S, _LOOK_FIRST_S)
            if first == full:
                raise TimeoutError(f"no worker took a chunk out of {self._stream} within {_START_S:g} s")
            begun = Reading.of(pids)
            last = await self._fallen_below(max(1, full - at_most + 1), seconds, _LOOK_EVERY_S)
            ended = Reading.of(pids)
        finally:
            await self.hold()
        if first == last:  # all went between two looks
            return Drained(full - last, ended.since(held))
        return Drained(first - last, ended.since(begun))

    async def _fallen_below(self, chunks: int, seconds: float, look_every_s: float) -> int:
        """Wait until fewer wait, or for so many seconds; returns how many do."""
        until = time.perf_counter() + seconds
        while (found := await self.depth()) >= chunks and time.perf_counter() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(look_every_s)
        return found

    async def _pause(self, until: datetime | None) -> None:
        body = {} if until is None else {"pause_until": until.isoformat()}
        await self._api(f"CONSUMER.PAUSE.{self._stream}.{topology.CONSUMER}", body)

    async def _api(self, call: str, body: Mapping[str, object] | None = None) -> Any:
        """One JetStream API request.

        Raises:
            RuntimeError: The broker refuses it.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        answer = json.loads((await self._nats.request(f"$JS.API.{call}", sent, timeout=_API_S)).data)
        if "error" in answer:
            raise RuntimeError(f"{call}: {answer['error']}")
        return answer


def _spec(model: str, max_chunk_tokens: int, max_payload: int) -> ModelSpec:
    engine, config = NullEngine.load(model), WorkerConfig(max_chunk_tokens=max_chunk_tokens)
    return describe(engine.checkpoint, config, compute_dtype="float32", max_payload=max_payload)


def _topology(spec: ModelSpec) -> Topology:
    """The batch queue as a worker would make it, but for its bound: it is the disk here."""
    size = limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
    stream = topology.batch_stream(spec.name, max_msg_size=size, max_bytes=-1)
    return Topology((stream,), (topology.batch_consumer(spec.name),), shards={})
