"""What a backlog costs: broker memory, disk, and the work of taking a chunk out, as the backlog grows.

It knows depths. The chunks are short, so that millions of them fit on a disk: what grows with a backlog grows with its
chunks, not with their tokens.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

from economics import meter, processes
from economics.batch_queue import Drained, Queue, check_room
from economics.message_path import CHUNK_TOKENS
from result import Backlog

TOKENS = 16
# Taken out at a depth: few beside a great depth, and enough to tell what one of them costs.
_MOST, _LEAST = 20_000, 1_000


def check(depths: Sequence[int]) -> None:
    """See that the disk has room.

    Args:
        depths: Chunks that will wait.

    Raises:
        NoRoom: It has not three times the room for the deepest.
    """
    check_room(max(depths, default=0), TOKENS, shutil.disk_usage(tempfile.gettempdir()).free)


async def measure(model: str, depths: Sequence[int], seconds: float, say: Callable[[str], None]) -> tuple[Backlog, ...]:
    """Fill a queue to each depth, and take some chunks out.

    Args:
        model: A directory.
        depths: Chunks that wait, in rising order.
        seconds: To take chunks out at a depth, at most.
        say: Told what happens.

    Raises:
        NoRoom: See `check`; nothing was started.
    """
    check(depths)
    async with Queue.opened(model, CHUNK_TOKENS) as queue:
        with processes.null_worker(model, queue.url, "--max-chunk-tokens", str(CHUNK_TOKENS)) as worker:
            pids = {"broker": (queue.pid,), "worker": (worker.pid,)}
            found = []
            for depth in depths:
                say(f"a backlog of {depth:,} chunks")
                found.append(await _at(queue, depth, pids, seconds))
            return tuple(found)


async def _at(queue: Queue, depth: int, pids: Mapping[str, Sequence[int]], seconds: float) -> Backlog:
    publish_per_s = await queue.fill(depth, TOKENS)
    memory_mib, disk_mib = meter.memory_mib(queue.pid), meter.disk_mib(queue.store)
    drained = await _drained(queue, depth, pids, seconds)
    per_chunk = drained.used.us_per(drained.chunks)
    return Backlog(
        chunks=depth,
        tokens=TOKENS,
        publish_per_s=publish_per_s,
        broker_memory_mib=memory_mib,
        broker_disk_mib=disk_mib,
        drain_per_s=drained.chunks / drained.used.at_s,
        drained=drained.chunks,
        broker_cpu_us=per_chunk["broker"],
        worker_cpu_us=per_chunk["worker"],
    )


async def _drained(queue: Queue, depth: int, pids: Mapping[str, Sequence[int]], seconds: float) -> Drained:
    """Half the depth at most; of a small one several times, filled up again between."""
    most = max(1, min(_MOST, depth // 2))
    found = await queue.drain(pids, most, seconds)
    for _ in range(min(_LEAST, 2 * depth) // most - 1):
        await queue.fill(depth, TOKENS)
        found = found.plus(await queue.drain(pids, most, seconds))
    return found
