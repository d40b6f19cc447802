"""The result of a step that may still be running on its device.

It knows when rows can be read. It does not know what they mean.
"""

import numpy as np
import numpy.typing as npt
import torch


class LazyTensor:
    """Rows [num_sequences, dim] float32 that are there, or will be once the device has run what is queued.

    `Engine.step` returns one as soon as its work is queued, so that the caller can pack the next batch meanwhile. On a
    CPU nothing is queued: the rows are there when `step` returns, `done` is always true and `wait` returns at once.
    Write code against the interface, not against that: on a CUDA device the rows arrive by an asynchronous copy.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: torch.Tensor) -> None:
        """Hold rows that are there already.

        Args:
            rows: [num_sequences, dim] float32 on the CPU.
        """
        self._rows = rows

    def done(self) -> bool:
        """Tell, without waiting, whether the rows are there."""
        return True

    def wait(self) -> None:
        """Return once the rows are there."""

    def numpy(self) -> npt.NDArray[np.float32]:
        """Wait for the rows and return them, [num_sequences, dim] float32, without a copy."""
        self.wait()
        rows: npt.NDArray[np.float32] = self._rows.numpy()
        return rows
