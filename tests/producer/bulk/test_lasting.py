"""What goes on beside something else is missed when it ends, however it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from headrace.bulk.lasting import lasting

Doing: TypeAlias = Callable[[], Awaitable[None]]


async def returns() -> None:
    pass


async def ends_as_cancelled() -> None:
    raise asyncio.CancelledError


async def waits_for_what_is_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize(
    ("doing", "how"),
    [
        (returns, "returns ended before"),
        (ends_as_cancelled, "ends_as_cancelled ended as cancelled"),
        (waits_for_what_is_cancelled, "waits_for_what_is_cancelled ended as cancelled"),
    ],
)
async def test_a_helper_that_ends_by_itself_ends_the_whole_group(doing: Doing, how: str) -> None:
    async def group_with_helper() -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(lasting(doing))
            await asyncio.get_running_loop().create_future()

    with pytest.raises(ExceptionGroup) as caught:
        await group_with_helper()
    (error,) = caught.value.exceptions
    assert isinstance(error, AssertionError)
    assert how in str(error)


async def test_one_that_fails_fails_as_it_is() -> None:
    async def fails() -> None:
        raise ValueError("for a reason")

    with pytest.raises(ValueError, match="for a reason"):
        await lasting(fails)


async def test_one_that_is_cancelled_is_done_with() -> None:
    began = asyncio.Event()

    async def waits() -> None:
        began.set()
        await asyncio.get_running_loop().create_future()

    async with asyncio.TaskGroup() as group:
        helper = group.create_task(lasting(waits))
        await began.wait()
        helper.cancel()
    assert helper.cancelled()
