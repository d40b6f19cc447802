"""How throughput grows with the number of workers: with engines that answer at once, and with real ones.

It knows how workers share the cores. Their queue is full, and nobody listens for replies, so that no client takes part
in what is measured.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Literal

from economics import processes
from economics.batch_queue import Queue
from economics.message_path import CHUNK_TOKENS
from headrace import local
from result import Growth

# More than the workers of a small machine take out in a second: so many wait for each second that is measured.
_CHUNKS_PER_S = {"null": 8000, "real": 250}
_LEAST_CHUNKS = 400
_LIMIT = ("--max-chunk-tokens", str(CHUNK_TOKENS))


class Crowd:
    """Workers of one model on one queue."""

    def __init__(self, queue: Queue, model: str, seconds: float, say: Callable[[str], None]) -> None:
        """Take what is the same for all numbers of workers.

        Args:
            queue: Held; what it was filled with stays in it.
            model: A directory; it must take texts of 512 tokens.
            seconds: To measure a number of workers.
            say: Told what happens.
        """
        self._queue = queue
        self._model = model
        self._seconds = seconds
        self._say = say

    async def null(self, numbers: Sequence[int]) -> AsyncIterator[Growth]:
        """Workers whose engine answers at once.

        Args:
            numbers: Of workers, in rising order: those that are there stay.
        """
        with ExitStack() as workers:
            for there, wanted in pairwise((0, *numbers)):
                for _ in range(wanted - there):
                    workers.enter_context(processes.null_worker(self._model, self._queue.url, *_LIMIT))
                yield await self._growth("null", wanted)

    async def real(self, numbers: Sequence[int], dtype: str, threads: int) -> AsyncIterator[Growth]:
        """Real workers, which share the threads.

        Args:
            numbers: Of workers; those above `threads` are left out.
            dtype: That they compute in.
            threads: Of all of them together.
        """
        for wanted in numbers:
            if wanted <= threads:
                share = ("--dtype", dtype, "--threads", str(threads // wanted), "--no-calibration")
                with tempfile.TemporaryDirectory(prefix="headrace-bench-") as logs, ExitStack() as workers:
                    for number in range(wanted):
                        log = Path(logs) / f"{number}.log"
                        workers.enter_context(local.worker(self._model, self._queue.url, *_LIMIT, *share, log=log))
                    yield await self._growth("real", wanted)

    async def _growth(self, engine: Literal["null", "real"], workers: int) -> Growth:
        self._say(f"throughput of {workers} workers with a {engine} engine")
        chunks = max(_LEAST_CHUNKS, int(_CHUNKS_PER_S[engine] * self._seconds))
        await self._queue.fill(chunks, CHUNK_TOKENS)
        drained = await self._queue.drain({}, chunks * 3 // 4, self._seconds)
        per_s = drained.chunks / drained.used.at_s
        return Growth(engine=engine, workers=workers, chunks_per_s=per_s, tokens_per_s=per_s * CHUNK_TOKENS)
