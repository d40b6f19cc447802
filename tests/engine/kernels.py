"""Stand-ins for the attention kernels of CUDA devices, which compute on the CPU what the real ones say they do.

They take arguments under the real names, read lengths from where the real ones read them and when, and keep what they
were called with. `test_attention_signatures.py` holds those calls to the real signatures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.flashinfer import FlashInferBackend, FlashInferConfig
from headrace_engine.attention.reference import attend_by_definition

from .recording import CPU, ManualEvent


@dataclass(frozen=True)
class Call:
    """A call that the engine made: of what, and with which arguments, without `self`."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass
class Device:
    """A device that does what is queued on it when told, in order.

    Attributes:
        calls: What was called.
        events: The copy events that were recorded.
        queue: Work that waits.
    """

    calls: list[Call] = field(default_factory=list)
    events: list["QueuedEvent"] = field(default_factory=list)
    queue: list[Callable[[], object]] = field(default_factory=list)

    def say(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.calls.append(Call(name, args, kwargs))

    def called(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def record_event(self) -> "QueuedEvent":
        event = QueuedEvent(self)
        self.events.append(event)
        self.queue.append(event.fire)
        return event

    def drain(self) -> None:
        """Do all that is queued."""
        while self.queue:
            self.queue.pop(0)()

    def wrapper(self, *args: Any, **kwargs: Any) -> "Wrapper":
        return Wrapper(self, *args, **kwargs)

    def flashinfer(self, *shapes: AttentionShape, **changes: Any) -> FlashInferBackend:
        config = FlashInferConfig(kernel="fa2", device=CPU, dtype=torch.float16, num_sms=16)
        return FlashInferBackend(replace(config, **changes), shapes, self.record_event, self.wrapper)

    def varlen_attn(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.say("varlen_attn", *args, **kwargs)
        return varlen_attn(*args, **kwargs)

    def flash_attn_varlen_func(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        self.say("flash_attn_varlen_func", *args, **kwargs)
        return flash_attn_varlen_func(*args, **kwargs), None


class QueuedEvent(ManualEvent):
    """An event that fires when the device reaches it; waiting makes the device work that far."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device

    def fire(self) -> None:
        self.fired = True

    def synchronize(self) -> None:
        self.waits += 1
        while not self.fired:
            self.device.queue.pop(0)()


class Wrapper:
    """FlashInfer's wrapper: a plan is written to the host's memory at once, copied and run when the device gets there.

    As in the real one, writing a plan over one whose copy still waits changes what that copy will bring.
    """

    def __init__(self, device: Device, *args: Any, **kwargs: Any) -> None:
        device.say("__init__", *args, **kwargs)
        self.device = device
        self.buffers = kwargs if kwargs.get("use_cuda_graph") else None
        self.host: dict[str, Any] = {}
        self.there: dict[str, Any] = {}
        self.rows: int | None = None

    def reset_workspace_buffer(self, *args: Any, **kwargs: Any) -> None:
        self.device.say("reset_workspace_buffer", *args, **kwargs)

    def plan(self, *args: Any, **kwargs: Any) -> None:
        self.device.say("plan", *args, **kwargs)
        qo_indptr, kv_indptr, num_heads, num_kv_heads, head_dim = args
        assert qo_indptr.device.type == "cpu"
        assert qo_indptr.dtype == torch.int32
        if self.buffers is not None:
            self.rows = int(qo_indptr[-1]) if self.rows is None else self.rows
            assert int(qo_indptr[-1]) <= self.rows
            self.device.queue.append(lambda: self.buffers and self.buffers["qo_indptr_buf"].copy_(qo_indptr))
            self.device.queue.append(lambda: self.buffers and self.buffers["kv_indptr_buf"].copy_(kv_indptr))
        self.host.update(kwargs, indptr=qo_indptr.clone(), heads=(num_heads, num_kv_heads, head_dim))
        self.device.queue.append(lambda: self.there.update(self.host))

    def run(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.device.say("run", *args, **kwargs)
        query, key, value = args
        assert len(query) == int(self.host["indptr"][-1])
        attended = torch.full_like(query, torch.nan, memory_format=torch.contiguous_format)
        self.device.queue.append(lambda: attended.copy_(self._attend(query, key, value)))
        return attended

    def _attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        plan = self.there
        assert plan["q_data_type"] == plan["kv_data_type"] == plan["o_data_type"] == query.dtype
        if self.buffers is not None:
            assert torch.equal(self.buffers["qo_indptr_buf"], plan["indptr"])
        left = plan["window_left"]
        right = 0 if plan["causal"] else -1
        return _attend(query, key, value, plan["indptr"], (left, right), plan["sm_scale"])


def varlen_attn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    num_splits: int | None = None,
) -> torch.Tensor:
    """torch.nn.attention.varlen.varlen_attn."""
    assert enable_gqa or query.size(1) == key.size(1)
    assert num_splits == 1
    assert cu_seq_q is cu_seq_k
    assert max_q == max_k
    assert int(cu_seq_q.diff().max()) <= max_q
    return _attend(query, key, value, cu_seq_q, window_size, scale)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
) -> torch.Tensor:
    """flash_attn.cute.interface.flash_attn_varlen_func, without what it gives beside."""
    assert cu_seqlens_q is cu_seqlens_k
    assert max_seqlen_q == max_seqlen_k
    assert int(cu_seqlens_q.diff().max()) <= max_seqlen_q
    left, right = (-1 if side is None else side for side in window_size)
    return _attend(q, k, v, cu_seqlens_q, (left, 0 if causal else right), softmax_scale)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens: torch.Tensor,
    window: tuple[int, int],
    scale: float | None,
) -> torch.Tensor:
    """The definition, under a window that is given as so many tokens to the left and to the right, -1 being all."""
    left, right = window
    bias = None
    if left != -1 or right not in {-1, 0}:
        longest = int(cu_seqlens.diff().max())
        ahead = np.arange(longest) - np.arange(longest)[:, None]
        unseen = (ahead < -left if left != -1 else False) | (ahead > right if right != -1 else False)
        bias = torch.zeros(query.size(1), longest, longest).masked_fill(torch.from_numpy(unseen), -torch.inf)
    shape = AttentionShape(
        num_heads=query.size(1),
        num_kv_heads=key.size(1),
        head_dim=query.size(2),
        causal=right == 0,
        scale=scale,
    )
    return attend_by_definition(query, key, value, cu_seqlens.numpy(), shape, bias).to(query.dtype)
