import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from headrace_engine import LazyTensor
from headrace_engine.staging import Lease, Staging
from hypothesis import given
from hypothesis import strategies as st

from .recording import ManualEvent

ROWS = torch.arange(6, dtype=torch.float32).view(3, 2)
ORDER = np.array([2, 0, 1])
IN_ORDER = [[2, 3], [4, 5], [0, 1]]


class Copied:
    """Rows that a device has copied, or will copy, into a leased buffer."""

    def __init__(self, depth: int = 1) -> None:
        self.staging = Staging(lambda num_bytes: torch.empty(num_bytes, dtype=torch.uint8), depth)
        self.event = ManualEvent()

    def lazy(self) -> LazyTensor:
        lease = self.staging.lease(ROWS.nbytes)
        rows = lease.view(ROWS.shape, torch.float32)
        rows.copy_(ROWS)
        lease.guard(self.event)
        return LazyTensor(rows, ORDER, self.event, lease)

    def lease(self) -> Lease:
        """Another buffer, spoilt."""
        lease = self.staging.lease(ROWS.nbytes)
        lease.buffer.fill_(255)
        return lease


def test_rows_that_are_there_can_be_read_at_once() -> None:
    lazy = LazyTensor(ROWS)
    lazy.wait()
    assert lazy.done()
    assert lazy.numpy().tolist() == ROWS.tolist()
    assert lazy.numpy().dtype == np.float32


@given(st.permutations(range(7)))
def test_rows_go_back_in_the_order_of_the_caller(order: list[int]) -> None:
    packed = torch.tensor(order, dtype=torch.float32)[:, None]
    assert LazyTensor(packed, np.array(order)).numpy()[:, 0].tolist() == list(range(7))


def test_an_order_that_does_not_fit_the_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="order has 3 entries for 1 rows"):
        LazyTensor(ROWS[:1], ORDER)


def test_done_does_not_wait_and_follows_the_event() -> None:
    copied = Copied()
    lazy = copied.lazy()
    assert not lazy.done()
    copied.event.fired = True
    assert lazy.done()
    assert copied.event.waits == 0


def test_waiting_and_reading_wait_for_the_event() -> None:
    copied = Copied()
    copied.lazy().wait()
    assert copied.event.waits == 1
    copied.event.fired = False
    assert copied.lazy().numpy().tolist() == IN_ORDER
    assert copied.event.fired


def test_the_array_is_a_copy_that_later_users_of_the_buffer_cannot_change() -> None:
    copied = Copied()
    lazy = copied.lazy()
    array = lazy.numpy()
    other = copied.lease()
    assert array.tolist() == IN_ORDER
    assert copied.staging.num_buffers == 1  # so it is the same buffer
    assert lazy.numpy() is array
    assert lazy.done()
    other.release()


def test_rows_that_were_not_read_stay_untouched() -> None:
    copied = Copied()
    lazy = copied.lazy()
    copied.event.fired = True
    other = copied.lease()
    assert lazy.numpy().tolist() == IN_ORDER
    other.release()


def test_dropping_it_unread_gives_the_buffer_back_once_its_event_has_fired() -> None:
    copied = Copied(depth=2)
    lazy = copied.lazy()
    del lazy
    gc.collect()
    held = copied.lease()
    assert copied.staging.num_buffers == 2  # the event is pending
    copied.event.fired = True
    other = copied.lease()
    assert copied.staging.num_buffers == 2
    assert copied.event.waits == 0
    held.release()
    other.release()


def test_many_threads_read_the_same_array() -> None:
    reached, fire = threading.Event(), threading.Event()

    class Late(ManualEvent):
        def synchronize(self) -> None:
            reached.set()
            assert fire.wait(20)

    lazy = LazyTensor(ROWS.clone(), ORDER, Late())
    with ThreadPoolExecutor(8) as pool:
        arrays = [pool.submit(lazy.numpy) for _ in range(8)]
        assert reached.wait(20)
        assert not lazy.done()  # it does not wait for those that wait
        fire.set()
        first = arrays[0].result(20)
        assert all(array.result(20) is first for array in arrays)
    assert first.tolist() == IN_ORDER


def test_an_error_of_the_device_is_raised_at_every_read() -> None:
    class Lost(ManualEvent):
        def synchronize(self) -> None:
            message = "device lost"
            raise RuntimeError(message)

    lazy = LazyTensor(ROWS, ORDER, Lost())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="device lost"):
            lazy.numpy()
