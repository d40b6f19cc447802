"""Batches in, rows out, through page-locked memory, without waiting.

It knows which CUDA stream each copy runs on and what must wait for what. It does not know what is computed between.
Ways in run on the computing CUDA stream, in order with what reads them. Ways out run on a CUDA stream of their own, so
that rows travel while the next batch is computed.
"""

import numpy as np
import numpy.typing as npt
import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.block import join, num_bytes, split
from headrace_engine.lazy import LazyTensor
from headrace_engine.staging import Staging

# A batch and its rows may be of one size; two batches are in flight, a third is filled, and rows are read meanwhile.
_DEPTH = 8


class Copies:
    """Copies between a host and one device.

    Attributes:
        device: The device.
    """

    def __init__(self, device: torch.device) -> None:
        """Begin without any buffer.

        Args:
            device: A CUDA device.
        """
        self.device = device
        self._way_out = torch.cuda.Stream(device)
        self._staging = Staging(_page_locked, _DEPTH)

    def upload(self, batch: RaggedBatch) -> RaggedBatch:
        """Queue the copy of a batch to the device, as one piece, on the current CUDA stream.

        Returns:
            The batch with its tensors on the device, whose `host_cu_seqlens` and `order` are those of the host's.
        """
        size = num_bytes(batch)
        lease = self._staging.lease(size)
        block = torch.empty(size, dtype=torch.uint8, device=self.device)
        _copy(block, join(batch, lease.view((size,), torch.uint8)))
        lease.guard(record())
        lease.release()
        return split(block, batch)

    def write(self, destination: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy over a tensor of the device, on the current CUDA stream; `source` may be changed at once."""
        lease = self._staging.lease(source.nbytes)
        staged = lease.view(source.shape, source.dtype)
        _copy(destination, staged.copy_(source))
        lease.guard(record())
        lease.release()

    def download(self, rows: torch.Tensor, order: npt.NDArray[np.int64]) -> LazyTensor:
        """Queue the copy of rows to the host, on a CUDA stream of its own, behind what the current one has queued.

        Args:
            rows: [N, dim] float32 on the device. Nothing may be written over them until the copy is done.
            order: Row i is the caller's row order[i].
        """
        lease = self._staging.lease(rows.nbytes)
        staged = lease.view(rows.shape, rows.dtype)
        self._way_out.wait_event(record())
        with torch.cuda.stream(self._way_out):
            _copy(staged, rows)
            copied = record()
        # Memory of the computing CUDA stream: kept until the copy is done, or its next owner would write into it.
        lease.guard(copied, rows)
        return LazyTensor(staged, order, copied, lease)


def _copy(destination: torch.Tensor, source: torch.Tensor) -> None:
    """Queue a copy on the current CUDA stream; one of the two is in page-locked memory."""
    destination.copy_(source, non_blocking=True)


def record() -> torch.cuda.Event:
    """An event behind all that the current CUDA stream has queued; waiting for it sleeps instead of spinning."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


def _page_locked(num_bytes: int) -> torch.Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
