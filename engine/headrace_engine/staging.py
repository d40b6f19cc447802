"""Staging: host buffers that asynchronous copies read from and write to, lent out in turn.

It knows who may still touch a buffer: its user until it is released, and a copy until its event fires. It does not know
what makes the memory page-locked, nor what is copied where.
"""

import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

_MIN_BYTES = 4096  # a page: memory is locked by the page


class Event(Protocol):
    """A point in the queue of a device, reached once everything before it is done."""

    def query(self) -> bool:
        """Tell, without waiting, whether it is reached."""

    def synchronize(self) -> None:
        """Wait until it is reached."""


@dataclass(slots=True, eq=False)
class _Slot:
    buffer: torch.Tensor  # [size] uint8
    guards: list[tuple[Event, tuple[torch.Tensor, ...]]] = field(default_factory=list)

    def settle(self) -> bool:
        """Drop the guards whose event has fired, and say whether none is left."""
        self.guards = [guard for guard in self.guards if not guard[0].query()]
        return not self.guards

    def wait(self) -> None:
        for event, _ in self.guards:
            event.synchronize()
        self.guards = []


class Lease:
    """A host buffer in one user's hands, until `release` or until the lease is dropped.

    Keep the lease as long as the buffer or a view of it is in use on the host. Copies that the device still has to make
    need no lease, only a guard.
    """

    __slots__ = ("__weakref__", "_return", "_slot")

    def __init__(self, slot: _Slot, returned: deque[_Slot]) -> None:
        """Use `Staging.lease`."""
        self._slot = slot
        # A finaliser runs once, whoever is first: release, or the garbage collector.
        self._return = weakref.finalize(self, returned.append, slot)
        self._return.atexit = False

    @property
    def buffer(self) -> torch.Tensor:
        """The whole buffer: [at least num_bytes] uint8, with whatever its last user left in it."""
        return self._held().buffer

    def view(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """View the beginning of the buffer as a tensor; raises RuntimeError where the buffer is too small."""
        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        return self.buffer[:num_bytes].view(dtype).view(tuple(shape))

    def guard(self, event: Event, *keep: torch.Tensor) -> None:
        """Name a copy that reads or writes the buffer; with several, the buffer waits for all.

        Args:
            event: Fires when the copy is done.
            keep: Tensors of the device to keep alive until then, such as the one that is copied; the first lease of
                any size after that lets go of them.
        """
        self._held().guards.append((event, keep))

    def release(self) -> None:
        """Give the buffer back; again is harmless. Takes no lock and asks nothing of the device: any thread may."""
        self._return()

    def _held(self) -> _Slot:
        if not self._return.alive:
            message = "This is a bug: a staging buffer is used after its release"
            raise RuntimeError(message)
        return self._slot


class Staging:
    """Buffers of powers of two bytes, at most `depth` of each size unless users hold more at once.

    Of one size one buffer after the other is lent out, so copies overlap as long as no more than `depth` are under way.
    Less than 4 × depth × the largest lease is kept in all.
    """

    def __init__(self, allocate: Callable[[int], torch.Tensor], depth: int) -> None:
        """Begin without any buffer.

        Args:
            allocate: Makes a host buffer, [num_bytes] uint8, that the device can copy to and from.
            depth: How many buffers of a size may be waiting for their copies before a lease waits for one of them.

        Raises:
            ValueError: `depth` is below 1.
        """
        if depth < 1:
            message = f"depth={depth} is too small: set at least 1"
            raise ValueError(message)
        self._allocate = allocate
        self._depth = depth
        self._lock = threading.Lock()
        # A deque because append is atomic: the garbage collector may release a lease within any line below.
        self._returned: deque[_Slot] = deque()
        self._resting: list[_Slot] = []  # returned, free or with a copy under way, the oldest first
        self._num: Counter[int] = Counter()  # buffers of each size, held or resting

    @property
    def num_buffers(self) -> int:
        """Buffers there are, lent out or not."""
        with self._lock:
            return self._num.total()

    def lease(self, num_bytes: int) -> Lease:
        """Lend a buffer that nobody reads or writes any more; wait for a copy where all but `depth` are under way.

        It may allocate and query events, so do not call it while the same thread captures a graph.

        Raises:
            ValueError: `num_bytes` is below 1.
        """
        if num_bytes < 1:
            message = f"num_bytes={num_bytes} is too small: lease at least 1"
            raise ValueError(message)
        with self._lock:
            self._collect()
            slot = self._take(max(_MIN_BYTES, 1 << (num_bytes - 1).bit_length()))
        slot.wait()  # outside the lock: other threads need not wait for this copy
        return Lease(slot, self._returned)

    def _collect(self) -> None:
        """Take in what was returned, let go of what fired events kept alive, and drop what is too many."""
        while self._returned:
            self._resting.append(self._returned.popleft())
        for slot in self._resting.copy():
            size = slot.buffer.numel()
            if slot.settle() and self._num[size] > self._depth:
                self._resting.remove(slot)
                self._num[size] -= 1

    def _take(self, size: int) -> _Slot:
        """A free buffer, a new one, the one returned first, or a new one beyond `depth`: whichever there is."""
        resting = [slot for slot in self._resting if slot.buffer.numel() == size]
        slot = next((slot for slot in resting if not slot.guards), None)
        if slot is None and resting and self._num[size] >= self._depth:
            slot = resting[0]
        if slot is None:
            slot = _Slot(self._allocate(size))
            self._num[size] += 1
        else:
            self._resting.remove(slot)
        return slot
