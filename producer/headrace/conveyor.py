"""Work on many batches at a time, whose results come out in the order of the batches.

Knows how many may be under way, in an event loop and from threads. Does not know what a batch is, nor the work.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, TypeVar

B = TypeVar("B")
R = TypeVar("R")


async def convey(
    batches: AsyncGenerator[B, None], work: Callable[[B], Coroutine[Any, Any, R]], in_flight: int
) -> AsyncGenerator[R, None]:
    """Results in the order of the batches, each as soon as it is there and its turn.

    A failure comes at the place of its batch, or after all results where it is that of `batches`. However this ends,
    what is under way then is cancelled, and has ended when it has.

    Args:
        batches: read one batch ahead.
        work: what is done with each.
        in_flight: batches under way, or done and not taken, at most.
    """
    room = asyncio.Semaphore(in_flight)
    line: asyncio.Queue[asyncio.Task[R] | None] = asyncio.Queue()
    tasks: set[asyncio.Task[Any]] = set()

    async def load() -> None:
        async with aclosing(batches):
            async for batch in batches:
                await room.acquire()
                task = asyncio.create_task(work(batch))
                tasks.add(task)
                line.put_nowait(task)

    # Not a TaskGroup: whoever takes the results may leave in the middle, from another task than this began in.
    loading = asyncio.create_task(load())
    loading.add_done_callback(lambda _: line.put_nowait(None))
    try:
        while (task := await line.get()) is not None:
            result = await task
            tasks.discard(task)
            room.release()
            yield result
        await loading  # raises what the batches raised
    finally:
        for left in (loading, *tasks):
            left.cancel()
        await asyncio.gather(loading, *tasks, return_exceptions=True)


def convey_from_thread(
    batches: Iterator[B], start: Callable[[B], "Future[R]"], finish: Callable[["Future[R]"], R], in_flight: int
) -> Generator[R, None, None]:
    """The same for a thread, in which the batches are read.

    Args:
        batches: read when a result is asked for and none is there.
        start: begins the work on one.
        finish: waits for it.
        in_flight: batches under way at most.
    """
    line: deque[Future[R]] = deque()
    failure: Exception | None = None

    def read() -> B | None:
        nonlocal failure
        try:
            return next(batches, None)
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
            return None

    try:
        while (batch := read()) is not None:
            line.append(start(batch))
            while line and (len(line) == in_flight or line[0].done()):
                yield finish(line.popleft())
        while line:
            yield finish(line.popleft())
        if failure is not None:
            raise failure
    finally:
        for future in line:
            future.cancel()
