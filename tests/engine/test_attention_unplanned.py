import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from headrace_engine import UnsupportedModel
from headrace_engine.attention import AttentionShape, varlen
from headrace_engine.attention.flash4 import Flash4Backend, import_attend
from headrace_engine.attention.reference import Inputs, deviation
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.buckets import Buckets, GraphKey, pad
from headrace_engine.static_batch import StaticBatch

from .kernels import Device
from .recording import CPU, batch_of

PLAIN = AttentionShape(num_heads=4, num_kv_heads=4, head_dim=32)
SHAPES = (
    PLAIN,
    replace(PLAIN, num_kv_heads=1),
    replace(PLAIN, causal=True),
    replace(PLAIN, window=8),
    replace(PLAIN, causal=True, window=8),
    replace(PLAIN, scale=0.3, head_dim=128),
)
HALF = torch.float16
BACKENDS: dict[str, Callable[[Device], Any]] = {
    "varlen": lambda device: VarlenBackend(SHAPES, HALF, device.varlen_attn),
    "fa4": lambda device: Flash4Backend(SHAPES, HALF, device.flash_attn_varlen_func),
}
every_backend = pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS.keys())
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@every_backend
@every_shape
def test_the_kernel_is_asked_for_attention(make: Callable[[Device], Any], shape: AttentionShape) -> None:
    batch = batch_of(3, 17, 9, 40)
    attention = make(Device()).plan(batch)
    assert deviation(attention, batch, shape, Inputs.draw(batch, shape, HALF)) < 1e-2


@every_backend
def test_a_replay_reads_the_lengths_of_its_own_batch(make: Callable[[Device], Any]) -> None:
    key = GraphKey(128, 8, 64)
    static = StaticBatch.allocate(key, CPU, has_segments=False)
    backend = make(Device())
    attention = backend.plan_static(static.batch)
    assert backend.bakes_max_seqlen
    for lengths in ([3, 60, 11], [64, 1, 2, 3]):
        batch = batch_of(*lengths)
        padded = pad(batch, Buckets(max_tokens=256, max_length=64, buckets_max_seqlen=True).key(batch) or key)
        if padded.num_sequences != key.num_sequences:
            padded = pad(batch, key)
        static.fill(padded, torch.Tensor.copy_)
        attention.update(padded)
        assert deviation(attention, padded, PLAIN, Inputs.draw(padded, PLAIN, HALF)) < 1e-2


@every_backend
def test_a_longer_sequence_than_the_launches_cover_is_refused(make: Callable[[Device], Any]) -> None:
    static = StaticBatch.allocate(GraphKey(128, 8, 64), CPU, has_segments=False)
    attention = make(Device()).plan_static(static.batch)
    with pytest.raises(ValueError, match="sequence of 65 tokens"):
        attention.update(batch_of(65, 63))


def test_every_kernel_that_batches_will_need_is_compiled_beforehand() -> None:
    device = Device()
    Flash4Backend(SHAPES, HALF, device.flash_attn_varlen_func).warm(CPU)
    calls = device.called("flash_attn_varlen_func")
    kinds = {
        (
            call.args[0].shape[1:],
            call.kwargs["causal"],
            len(call.kwargs["cu_seqlens_q"]) > 257,
            call.kwargs["max_seqlen_q"] > 128,
        )
        for call in calls
    }
    assert len(calls) == 4 * len(SHAPES)
    assert {kind[2:] for kind in kinds} == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize("backend", [VarlenBackend, Flash4Backend])
def test_float32_and_odd_heads_are_refused(backend: Any) -> None:
    with pytest.raises(UnsupportedModel, match="set dtype='bfloat16'"):
        backend([PLAIN], torch.float32, None)
    with pytest.raises(UnsupportedModel, match="multiples of 8"):
        backend([replace(PLAIN, head_dim=20)], HALF, None)
    with pytest.raises(UnsupportedModel, match="no bias"):
        backend([replace(PLAIN, has_position_bias=True)], HALF, None)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn.cute", None)
    with pytest.raises(UnsupportedModel, match="pip install flash-attn-4"):
        import_attend()
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    with pytest.raises(UnsupportedModel, match=r"torch 2\.12"):
        varlen.import_attend()
