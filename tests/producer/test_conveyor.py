"""Many batches under way, results in order, and nothing left when it ends."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from itertools import count

import pytest
from headrace.conveyor import convey, convey_from_thread

from ..waiting import until


class Site:
    """Work whose pieces end when the test says so."""

    def __init__(self) -> None:
        self.num_read = 0
        self.begun: dict[int, asyncio.Future[str]] = {}
        self.num_cancelled = 0

    async def source(self, end: int | None = None, error: Exception | None = None) -> AsyncGenerator[int, None]:
        for number in count():
            if number == end:
                break
            self.num_read += 1
            yield number
        if error is not None:
            raise error

    async def work(self, number: int) -> str:
        self.begun[number] = asyncio.get_running_loop().create_future()
        try:
            return await self.begun[number]
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise

    def end(self, number: int) -> None:
        self.begun[number].set_result(f"result {number}")


async def take(results: AsyncGenerator[str, None], taken: list[str]) -> None:
    async for result in results:
        taken.append(result)  # noqa: PERF401 - what comes before an error must be there after it


async def take_one(results: AsyncGenerator[str, None], *, is_closed: bool) -> None:
    async for _ in results:
        break
    if is_closed:
        tasks = asyncio.all_tasks()
        await results.aclose()
        assert len(asyncio.all_tasks()) < len(tasks) - 1, "what was under way has ended"


async def test_results_come_in_order_however_the_work_ends() -> None:
    site = Site()
    taken: list[str] = []
    taking = asyncio.create_task(take(convey(site.source(end=3), site.work, 3), taken))
    await until(lambda: len(site.begun) == 3, "all are under way")
    site.end(2)
    site.end(1)
    await asyncio.sleep(0)
    assert taken == []
    site.end(0)
    await taking
    assert taken == ["result 0", "result 1", "result 2"]


async def test_an_endless_source_is_read_one_batch_ahead_of_what_is_under_way() -> None:
    site = Site()
    async with aclosing(convey(site.source(), site.work, 4)) as results:
        for taken in range(3):
            asking = asyncio.ensure_future(anext(results))
            await until(lambda n=taken: (len(site.begun), site.num_read) == (4 + n, 5 + n), "all room is taken")  # type: ignore[misc]
            site.end(taken)
            assert await asking == f"result {taken}"


async def test_a_result_is_given_while_the_source_makes_one_wait() -> None:
    site, more = Site(), asyncio.Event()

    async def slow() -> AsyncGenerator[int, None]:
        yield 0
        await more.wait()
        yield 1

    results = convey(slow(), site.work, 4)
    asking = asyncio.ensure_future(anext(results))
    await until(lambda: 0 in site.begun, "the first is under way")
    site.end(0)
    assert await asking == "result 0"
    more.set()
    asking = asyncio.ensure_future(anext(results))
    await until(lambda: 1 in site.begun, "the second is under way")
    site.end(1)
    assert await asking == "result 1"
    assert await anext(results, None) is None


async def test_an_error_of_the_source_comes_after_the_results_before_it() -> None:
    site = Site()
    taken: list[str] = []
    failing = site.source(end=2, error=OSError("no more"))
    taking = asyncio.create_task(take(convey(failing, site.work, 4), taken))
    await until(lambda: len(site.begun) == 2, "both are under way")
    site.end(1)
    site.end(0)
    with pytest.raises(OSError, match="no more"):
        await taking
    assert taken == ["result 0", "result 1"]


async def test_a_failure_comes_in_its_turn_and_ends_the_rest() -> None:
    site = Site()
    results = convey(site.source(), site.work, 3)
    asking = asyncio.ensure_future(anext(results))
    await until(lambda: len(site.begun) == 3, "all are under way")
    site.begun[1].set_exception(ValueError("the second fails"))
    site.end(0)
    assert await asking == "result 0"
    with pytest.raises(ValueError, match="the second fails"):
        await anext(results)
    assert site.num_cancelled == len(site.begun) - 2


@pytest.mark.parametrize("how", ["close", "cancel", "break"])
async def test_whoever_leaves_leaves_nothing_behind(how: str) -> None:
    site, tasks = Site(), asyncio.all_tasks()
    taking = asyncio.create_task(take_one(convey(site.source(), site.work, 3), is_closed=how == "close"))
    await until(lambda: len(site.begun) == 3, "all are under way")
    if how == "cancel":
        taking.cancel()
        await asyncio.wait([taking])
    else:
        site.end(0)
        await taking
    await until(lambda: asyncio.all_tasks() == tasks, "no task is left")
    assert site.num_cancelled == len(site.begun) - (how != "cancel")


def test_from_a_thread_no_more_is_read_while_results_are_there() -> None:
    futures: list[Future[str]] = []

    def start(number: int) -> "Future[str]":
        assert number == len(futures)
        futures.append(Future())
        futures[-1].set_result(f"result {number}")
        return futures[-1]

    results = convey_from_thread(count(), start, Future.result, 3)
    assert [next(results) for _ in range(4)] == [f"result {number}" for number in range(4)]
    assert len(futures) == 4, "nothing is read while results are there"


def test_from_a_thread_what_is_under_way_is_bounded_and_cancelled_at_the_end() -> None:
    futures: list[Future[int]] = []

    def start(_: int) -> "Future[int]":
        futures.append(Future())
        return futures[-1]

    def finish(future: "Future[int]") -> int:
        assert len([future for future in futures if not future.done()]) <= 3
        future.set_result(1)
        return future.result()

    results = convey_from_thread(count(), start, finish, 3)
    assert [next(results) for _ in range(5)] == [1] * 5
    results.close()
    assert all(future.done() for future in futures)
    assert [future.cancelled() for future in futures].count(True) == 2


def test_from_a_thread_an_error_of_the_source_comes_after_the_results_before_it() -> None:
    def source() -> Iterator[int]:
        yield from range(2)
        raise OSError("no more")

    def start(number: int) -> "Future[int]":
        future: Future[int] = Future()
        future.set_result(number)
        return future

    results = convey_from_thread(source(), start, Future.result, 4)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(OSError, match="no more"):
        next(results)
