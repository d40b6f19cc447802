import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
import torch
from headrace_engine.staging import Lease, Staging
from hypothesis import given
from hypothesis import strategies as st

from .recording import ManualEvent


class Memory:
    """Allocates, and remembers how much."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, num_bytes: int) -> torch.Tensor:
        self.sizes.append(num_bytes)
        return torch.empty(num_bytes, dtype=torch.uint8)


def staging(depth: int = 2) -> Staging:
    return Staging(Memory(), depth)


def address(lease: Lease) -> int:
    return lease.buffer.data_ptr()


def returned(made: Staging, event: ManualEvent | None = None, num_bytes: int = 100) -> int:
    """Lease a buffer, guard it, give it back; its address."""
    lease = made.lease(num_bytes)
    if event is not None:
        lease.guard(event)
    where = address(lease)
    lease.release()
    return where


def test_a_buffer_that_was_given_back_is_lent_again() -> None:
    made = staging()
    assert returned(made) == returned(made)
    assert made.num_buffers == 1


def test_a_buffer_is_not_lent_to_two_users() -> None:
    made = staging()
    leases = [made.lease(100) for _ in range(5)]
    assert len({address(lease) for lease in leases}) == 5


def test_a_buffer_is_not_lent_while_its_event_is_pending() -> None:
    made, event = staging(depth=3), ManualEvent()
    first = returned(made, event)
    held = [made.lease(100), made.lease(100)]
    assert first not in {address(lease) for lease in held}
    event.fired = True
    assert address(made.lease(100)) == first
    assert event.waits == 0


def test_a_buffer_whose_event_has_fired_is_not_lent_while_its_user_holds_it() -> None:
    made, event = staging(), ManualEvent()
    lease = made.lease(100)
    lease.guard(event)
    event.fired = True
    assert address(made.lease(100)) != address(lease)


def test_beyond_its_depth_it_waits_for_the_buffer_returned_first() -> None:
    made = staging(depth=2)
    events = [ManualEvent(), ManualEvent()]
    leases = [made.lease(100) for _ in events]
    for lease, event in zip(leases, events, strict=True):
        lease.guard(event)
    first = address(leases[1])
    leases[1].release()
    leases[0].release()
    assert address(made.lease(100)) == first
    assert [event.waits for event in events] == [0, 1]
    assert made.num_buffers == 2


def test_waiting_for_a_copy_lets_go_of_what_it_kept_alive() -> None:
    made, tensor = staging(depth=1), torch.ones(3)
    alive = weakref.ref(tensor)
    lease = made.lease(100)
    lease.guard(ManualEvent(), tensor)
    lease.release()
    del lease, tensor
    held = made.lease(100)
    assert alive() is None
    held.release()


def test_it_takes_one_whose_event_has_fired_before_it_waits_for_an_older_one() -> None:
    made, pending = staging(depth=2), ManualEvent()
    lease = made.lease(100)
    returned(made, pending)
    where = address(lease)
    lease.release()
    assert address(made.lease(100)) == where
    assert pending.waits == 0


def test_where_users_hold_all_buffers_it_allocates_and_keeps_no_more_than_its_depth() -> None:
    made = staging(depth=2)
    leases = [made.lease(100) for _ in range(6)]
    assert made.num_buffers == 6
    for lease in leases:
        lease.release()
    returned(made)
    assert made.num_buffers == 2


def test_a_buffer_too_many_stays_until_its_event_fires() -> None:
    made, event = staging(depth=1), ManualEvent()
    leases = [made.lease(100) for _ in range(2)]
    buffer = weakref.ref(leases[1].buffer)
    leases[1].guard(event)
    leases[0].release()
    leases[1].release()
    made.lease(100).release()
    assert buffer() is not None


def test_tensors_are_kept_alive_until_the_event_fires_and_no_longer() -> None:
    made, event = staging(), ManualEvent()
    tensor = torch.ones(3)
    alive = weakref.ref(tensor)
    lease = made.lease(100)
    lease.guard(event, tensor)
    lease.release()
    del tensor, lease
    returned(made)
    gc.collect()
    assert alive() is not None
    event.fired = True
    returned(made, num_bytes=10_000)  # a lease of any size lets go
    assert alive() is None


def test_a_buffer_waits_for_all_of_its_events_and_each_lets_go_of_its_own_tensors() -> None:
    made = staging()
    events, tensors = [ManualEvent(), ManualEvent()], [torch.ones(1), torch.ones(1)]
    alive = [weakref.ref(tensor) for tensor in tensors]
    lease = made.lease(100)
    for event in events:
        lease.guard(event, tensors.pop(0))
    first = address(lease)
    lease.release()
    events[1].fired = True
    assert returned(made) != first
    assert [ref() is None for ref in alive] == [False, True]
    events[0].fired = True
    held = [made.lease(100), made.lease(100)]
    assert first in {address(lease) for lease in held}


def test_a_dropped_lease_gives_its_buffer_back_and_the_event_still_guards_it() -> None:
    made, event = staging(depth=2), ManualEvent()
    lease = made.lease(100)
    lease.guard(event)
    first = address(lease)
    del lease
    gc.collect()
    other = made.lease(100)
    assert address(other) != first
    event.fired = True
    assert address(made.lease(100)) == first


def test_releasing_twice_returns_the_buffer_once() -> None:
    made = staging()
    lease = made.lease(100)
    lease.release()
    lease.release()
    assert address(made.lease(100)) != address(made.lease(100))


@pytest.mark.parametrize("use", [lambda lease: lease.buffer, lambda lease: lease.guard(ManualEvent())])
def test_a_lease_is_of_no_use_after_its_release(use: Callable[[Lease], object]) -> None:
    lease = staging().lease(100)
    lease.release()
    with pytest.raises(RuntimeError, match="used after its release"):
        use(lease)


def test_releasing_asks_nothing_of_the_device() -> None:
    class Forbidden:
        def query(self) -> bool:
            raise AssertionError

        def synchronize(self) -> None:
            raise AssertionError

    lease = staging().lease(100)
    lease.guard(Forbidden())
    lease.release()


@given(st.integers(1, 2**20))
def test_sizes_are_powers_of_two_that_hold_what_is_asked_for(num_bytes: int) -> None:
    [size] = [staging().lease(num_bytes).buffer.numel()]
    assert size.bit_count() == 1
    assert num_bytes <= size <= max(4096, 2 * num_bytes - 1)


def test_growing_requests_leave_less_than_four_times_the_largest_for_each_level_of_depth() -> None:
    memory = Memory()
    made = Staging(memory, depth=2)
    for num_bytes in range(1000, 300_000, 1000):
        leases = [made.lease(num_bytes), made.lease(num_bytes)]
        for lease in leases:
            lease.release()
    assert sum(memory.sizes) < 2 * 4 * 300_000


def test_a_view_has_the_shape_and_type_asked_for_and_is_the_buffer() -> None:
    lease = staging().lease(4 * 6)
    view = lease.view((2, 3), torch.float32)
    assert (view.shape, view.dtype) == ((2, 3), torch.float32)
    view.fill_(1.5)
    assert lease.buffer[:24].numpy().view(np.float32).tolist() == [1.5] * 6


def test_a_view_larger_than_the_buffer_is_refused() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        staging().lease(10).view((5000,), torch.int64)


def test_ten_thousand_leases_of_random_sizes_need_few_buffers() -> None:
    memory, random = Memory(), np.random.default_rng(1)
    made = Staging(memory, depth=3)
    under_way: list[tuple[Lease, ManualEvent]] = []
    for _ in range(10_000):
        lease, event = made.lease(int(random.integers(1, 60_000))), ManualEvent()
        lease.guard(event)
        under_way.append((lease, event))
        if len(under_way) == 3:
            lease, event = under_way.pop(random.integers(3))
            lease.release()
            event.fired = bool(random.integers(2))
    assert made.num_buffers <= 5 * 3  # 4,096 to 65,536 bytes are 5 sizes
    assert len(memory.sizes) <= 5 * 3


@given(st.lists(st.sampled_from(["lease", "release", "fire"]), max_size=80), st.integers(1, 3), st.randoms())
def test_no_history_hands_out_a_buffer_that_somebody_still_needs(steps: list[str], depth: int, random: Random) -> None:
    made = staging(depth)
    held: list[tuple[Lease, ManualEvent]] = []
    pending: list[tuple[int, ManualEvent]] = []
    most = 0  # held at once
    for step in steps:
        if step == "lease":
            lease, event = made.lease(100), ManualEvent()
            used = {address(other) for other, _ in held} | {where for where, event in pending if not event.fired}
            assert address(lease) not in used
            lease.guard(event)
            held.append((lease, event))
            most = max(most, len(held))
        elif step == "release" and held:
            lease, event = held.pop(random.randrange(len(held)))
            pending.append((address(lease), event))
            lease.release()
        elif step == "fire" and pending:
            random.choice(pending)[1].fired = True
        assert made.num_buffers <= max(depth, most)


def test_one_thread_leases_and_others_release_and_nothing_is_overwritten() -> None:
    made = staging(depth=4)
    slots = threading.Semaphore(8)

    def read(lease: Lease, number: int) -> bool:
        intact = bool((lease.view((64,), torch.int64) == number).all())
        lease.release()
        slots.release()
        return intact

    with ThreadPoolExecutor(4) as pool:
        results = []
        for number in range(2000):
            slots.acquire()
            lease = made.lease(512)
            lease.view((64,), torch.int64).fill_(number)
            results.append(pool.submit(read, lease, number))
            del lease
    assert all(result.result() for result in results)
    returned(made)
    assert made.num_buffers <= 4


def test_threads_that_lease_at_once_get_different_buffers() -> None:
    made = staging(depth=2)

    def work(seed: int) -> None:
        for turn in range(200):
            lease, event = made.lease(256), ManualEvent()
            lease.guard(event)
            lease.view((32,), torch.int64).fill_(seed * 1000 + turn)
            event.fired = turn % 2 == 0
            assert (lease.view((32,), torch.int64) == seed * 1000 + turn).all()
            lease.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_a_thread_that_waits_for_a_copy_does_not_keep_others_from_leasing() -> None:
    reached, fire = threading.Event(), threading.Event()

    class Late(ManualEvent):
        def synchronize(self) -> None:
            reached.set()
            assert fire.wait(20)

    made = staging(depth=1)
    returned(made, Late())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(made.lease, 100)
        assert reached.wait(20)
        made.lease(10_000)
        fire.set()
        waiting.result(20)


def test_a_failed_allocation_is_not_counted() -> None:
    memory = Memory()
    answers = [MemoryError, memory]

    def allocate(num_bytes: int) -> torch.Tensor:
        answer = answers.pop(0)
        if answer is MemoryError:
            raise MemoryError
        return memory(num_bytes)

    made = Staging(allocate, depth=1)
    with pytest.raises(MemoryError):
        made.lease(100)
    assert made.num_buffers == 0
    made.lease(100)


def test_nonsense_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="depth=0"):
        staging(depth=0)
    with pytest.raises(ValueError, match="num_bytes=0"):
        staging().lease(0)
