"""The result of a step that may still be running on its device.

It knows when rows can be read and in which order they go back. It does not know what they mean, nor what device it is.
"""

import threading

import numpy as np
import numpy.typing as npt
import torch

from headrace_engine.staging import Event, Lease


class LazyTensor:
    """Rows [num_sequences, dim] float32 that are there, or will be once the device has run what is queued.

    `Engine.step` returns one as soon as its work is queued, so that the caller can pack the next batch meanwhile. From
    a CUDA device the rows arrive by an asynchronous copy into a leased staging buffer, and an event tells when. On a
    CPU nothing is queued: `done` is always true and `wait` returns at once.

    Any thread may read it, and several may at once. Read or dropped, it gives its buffer back.
    """

    __slots__ = ("_array", "_event", "_lease", "_lock", "_order", "_rows")

    def __init__(
        self,
        rows: torch.Tensor,
        order: npt.NDArray[np.int64] | None = None,
        event: Event | None = None,
        lease: Lease | None = None,
    ) -> None:
        """Hold rows that are, or will be, in host memory.

        Args:
            rows: [num_sequences, dim] float32 on the CPU.
            order: Row i is the caller's row order[i]; None where the rows are in the caller's order.
            event: Fires when the rows are there; None where they are.
            lease: Of the buffer that the rows are in. Guard it with the event, so that the buffer is safe even if the
                rows are never read.

        Raises:
            ValueError: `order` is not as long as there are rows.
        """
        if order is not None and len(order) != len(rows):
            message = f"order has {len(order)} entries for {len(rows)} rows: give one for each row, without padding"
            raise ValueError(message)
        self._rows = rows
        self._order = order
        self._event = event
        self._lease = lease
        self._array: npt.NDArray[np.float32] | None = None
        self._lock = threading.Lock()

    def done(self) -> bool:
        """Tell, without waiting, whether the rows are there."""
        event = self._event
        return event is None or event.query()

    def wait(self) -> None:
        """Return once the rows are there."""
        event = self._event
        if event is not None:
            event.synchronize()

    def numpy(self) -> npt.NDArray[np.float32]:
        """Wait for the rows and return them, [num_sequences, dim] float32 in the caller's order.

        The first call copies them out of the buffer and gives it back; later ones return the same array.
        """
        with self._lock:
            if self._array is None:
                self.wait()
                self._array = _in_order(self._rows.numpy(), self._order)
                self._event = None
                del self._rows  # what is in the buffer from now on is another's
                if self._lease is not None:
                    self._lease.release()
            return self._array


def _in_order(rows: npt.NDArray[np.float32], order: npt.NDArray[np.int64] | None) -> npt.NDArray[np.float32]:
    array = np.empty_like(rows)
    array[slice(None) if order is None else order] = rows
    return array
