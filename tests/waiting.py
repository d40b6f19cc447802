"""How tests wait: on conditions, with a limit."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until the condition holds; fail with `what` when it does not in time."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - conditions here are plain counters and lists, which have no event
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"waited {seconds} s in vain until {what}") from None
