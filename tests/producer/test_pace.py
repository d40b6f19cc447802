"""How a large call sends its chunks to a queue that may be smaller than it is."""

import asyncio

import pytest
from headrace import Overloaded
from headrace.call_window import LEAST
from headrace.pace import Pace
from headrace_contracts import ErrorCode, Usage


class Queue:
    """Lets in so many at a time, and answers one when it is told to."""

    def __init__(self, room: int, *, queue_ms: float = 0) -> None:
        self.room = room
        self.usage = Usage(tokens=1, queue_ms=queue_ms, run_ms=10, batch_tokens=1)
        self.waiting: list[asyncio.Event] = []
        self.most = 0
        self.refusals = 0
        self.answered = 0

    async def ask(self) -> Usage:
        if len(self.waiting) >= self.room:
            self.refusals += 1
            raise Overloaded(ErrorCode.OVERLOADED, "full", 1.0)
        event = asyncio.Event()
        self.waiting.append(event)
        self.most = max(self.most, len(self.waiting))
        await event.wait()
        self.answered += 1
        return self.usage

    async def answer_all(self, call: "asyncio.Task[None]") -> None:
        while not call.done():
            if self.waiting:
                self.waiting.pop(0).set()
            await asyncio.sleep(0.001)  # what paused comes back by itself
        await call


async def send_all(queue: Queue, number: int) -> None:
    pace = Pace()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(number):
            await pace.take_place()
            tasks.create_task(pace.send(queue.ask))


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_call_begins_with_a_few_chunks_and_grows() -> None:
    queue = Queue(room=1000)
    call = asyncio.create_task(send_all(queue, 200))
    await settled()
    assert len(queue.waiting) == LEAST
    await queue.answer_all(call)
    assert queue.most > 3 * LEAST
    assert (queue.answered, queue.refusals) == (200, 0)


@pytest.mark.parametrize("queue_ms", [0, 100])
@pytest.mark.parametrize("room", [1, 3, 10])
async def test_a_call_larger_than_the_queue_is_answered_all_the_same(room: int, queue_ms: float) -> None:
    queue = Queue(room=room, queue_ms=queue_ms)
    await queue.answer_all(asyncio.create_task(send_all(queue, 200)))
    assert queue.answered == 200
    assert queue.refusals < 300  # at the worst, as many replies as make it grow make it hit the limit


async def test_a_call_of_which_nothing_is_let_in_is_refused() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await send_all(Queue(room=0), 20)
    assert isinstance(caught.value.exceptions[0], Overloaded)


async def test_a_call_that_was_let_in_waits_for_room_although_others_take_it_all() -> None:
    queue = Queue(room=1)
    call = asyncio.create_task(send_all(queue, 6))
    await settled()
    queue.room = 0
    queue.waiting.pop(0).set()
    await settled()
    assert not call.done()
    queue.room = 3
    await queue.answer_all(call)
    assert queue.answered == 6


async def test_what_else_goes_wrong_ends_the_call() -> None:
    async def fail() -> None:
        raise ValueError("no")

    pace = Pace()
    await pace.take_place()
    with pytest.raises(ValueError, match="no"):
        await pace.send(fail)
