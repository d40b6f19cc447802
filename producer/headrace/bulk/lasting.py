"""What goes on beside something else until that is done. Knows asyncio's task groups, not what goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn


async def lasting(doing: Callable[[], Awaitable[None]]) -> NoReturn:
    """Do it until this task is cancelled.

    A task group takes no notice of a task that returns, nor of one that ends as cancelled although nobody cancelled it:
    whoever waits for what it does would wait for ever.

    Args:
        doing: called once; what it does never ends by itself.

    Raises:
        AssertionError: it has ended.
        Exception: what it raised.
    """
    task = asyncio.current_task()
    name = getattr(doing, "__qualname__", repr(doing))
    try:
        await doing()
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise
        raise AssertionError(f"This is a bug: {name} ended as cancelled, and nobody has cancelled it") from error
    raise AssertionError(f"This is a bug: {name} ended before it was cancelled")
