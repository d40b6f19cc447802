"""Every call that the engine makes of a library that cannot run here, held to that library's own signature."""

import ast
import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from headrace_engine.attention import AttentionBackend, AttentionShape
from headrace_engine.attention.flash4 import Flash4Backend
from headrace_engine.attention.reference import Inputs
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.buckets import GraphKey
from headrace_engine.static_batch import StaticBatch
from torch.nn.attention.varlen import varlen_attn

from . import kernel_sources
from .kernels import Call, Device
from .recording import CPU, batch_of

PLAIN = AttentionShape(num_heads=4, num_kv_heads=2, head_dim=64)
ONE_SIDED = (PLAIN, replace(PLAIN, causal=True), replace(PLAIN, causal=True, window=8), replace(PLAIN, scale=0.3))
SHAPES = (*ONE_SIDED, replace(PLAIN, window=8), replace(PLAIN, num_kv_heads=4))
HALF = torch.float16
WRAPPER = "BatchPrefillWithRaggedKVCacheWrapper"


def calls_of(device: Device, backend: Any, shapes: tuple[AttentionShape, ...]) -> list[Call]:
    """All that a backend calls for two batches outside a graph and two replays of one."""
    static = StaticBatch.allocate(GraphKey(128, 8, 64), CPU, has_segments=False)
    for _ in range(2):
        batch = batch_of(3, 17, 9)
        run_all(backend, batch, backend.plan(batch), shapes)
    attention = backend.plan_static(static.batch)
    for _ in range(2):
        attention.update(batch_of(*[16] * 8))
        run_all(backend, static.batch, attention, shapes)
    device.drain()
    return device.calls


def run_all(_: AttentionBackend, batch: Any, attention: Any, shapes: tuple[AttentionShape, ...]) -> None:
    for shape in shapes:
        inputs = Inputs.draw(batch, shape, HALF)
        attention.run(inputs.query, inputs.key, inputs.value, shape)


def bound(call: Call, real: inspect.Signature, *before: object) -> dict[str, Any]:
    return real.bind(*before, *call.args, **call.kwargs).arguments


@pytest.fixture(scope="module")
def flashinfer() -> ast.Module:
    return kernel_sources.read("flashinfer-python", "flashinfer/prefill.py")


@pytest.fixture(scope="module")
def flash4() -> ast.Module:
    return kernel_sources.read("flash-attn-4", "flash_attn/cute/interface.py")


@pytest.mark.parametrize("kernel", ["fa2", "fa3"])
def test_flashinfer_takes_what_it_is_called_with(flashinfer: ast.Module, kernel: str) -> None:
    device = Device()
    calls = calls_of(device, device.flashinfer(*ONE_SIDED, kernel=kernel), ONE_SIDED)
    seen = {name: kernel_sources.signature(kernel_sources.find(flashinfer, WRAPPER, name)) for name in _names(calls)}
    assert seen.keys() == {"__init__", "reset_workspace_buffer", "plan", "run"}
    for call in calls:
        arguments = bound(call, seen[call.name], None)
        match call.name:
            case "__init__":
                assert (arguments["kv_layout"], arguments["backend"]) == ("NHD", kernel)
            case "plan":
                assert arguments["qo_indptr"] is arguments["kv_indptr"]
                assert [arguments[name] for name in ("num_qo_heads", "num_kv_heads", "head_dim_qk")] == [4, 2, 64]
            case "run":
                assert [arguments[name].size(1) for name in "qkv"] == [4, 2, 2]


def test_flashinfer_does_what_is_left_to_its_defaults(flashinfer: ast.Module) -> None:
    plan = kernel_sources.signature(kernel_sources.find(flashinfer, WRAPPER, "plan")).parameters
    expected = {"pos_encoding_mode": "NONE", "logits_soft_cap": None, "custom_mask": None, "non_blocking": True}
    # Older versions read plan entries that were never written where a graph's plan may not split keys.
    expected |= {"disable_split_kv": False, "fixed_split_size": None, "use_fp16_qk_reduction": False}
    assert {name: plan[name].default for name in expected} == expected
    run = kernel_sources.signature(kernel_sources.find(flashinfer, WRAPPER, "run")).parameters
    assert run["return_lse"].default is False


def test_flash_attention_4_takes_what_it_is_called_with(flash4: ast.Module) -> None:
    device = Device()
    calls = calls_of(device, Flash4Backend(SHAPES, HALF, device.flash_attn_varlen_func), SHAPES)
    real = kernel_sources.signature(kernel_sources.find(flash4, "flash_attn_varlen_func"))
    for call in calls:
        arguments = bound(call, real)
        assert [arguments[name].size(1) for name in "qkv"] in ([4, 2, 2], [4, 4, 4])
    assert len(calls) == 4 * len(SHAPES)
    # One split, so that a text's row does not depend on how many texts there are.
    assert real.parameters["num_splits"].default == 1


def test_flash_attention_4_gives_a_pair(flash4: ast.Module) -> None:
    outer = kernel_sources.find(flash4, "flash_attn_varlen_func").body[-1]
    assert isinstance(outer, ast.Return)
    assert ast.unparse(outer).startswith("return FlashAttnVarlenFunc.apply(")
    inner = kernel_sources.find(flash4, "FlashAttnVarlenFunc", "forward").body[-1]
    assert ast.unparse(inner) in {"return (out, lse)", "return out, lse"}


def test_torch_takes_what_it_is_called_with() -> None:
    device = Device()
    calls = calls_of(device, VarlenBackend(SHAPES, HALF, device.varlen_attn), SHAPES)
    for call in calls:
        arguments = bound(call, inspect.signature(varlen_attn))
        assert [arguments[name].size(1) for name in ("query", "key", "value")] in ([4, 2, 2], [4, 4, 4])
        assert arguments["cu_seq_q"] is arguments["cu_seq_k"]
    assert len(calls) == 4 * len(SHAPES)


def test_torch_itself_takes_tensors_without_data() -> None:
    batch = batch_of(3, 17, 9)
    attention = VarlenBackend(SHAPES, HALF).plan(replace(batch, cu_seqlens=batch.cu_seqlens.to("meta")))
    for shape in SHAPES:
        inputs = Inputs.draw(batch, shape, HALF)
        query, key, value = (rows.to("meta") for rows in (inputs.query, inputs.key, inputs.value))
        assert attention.run(query, key, value, shape).shape == query.shape


def test_a_call_that_a_library_does_not_take_is_found() -> None:
    real = kernel_sources.signature(
        kernel_sources.find(ast.parse("class A:\n def f(s): ...\n def f(self, a, /, b=1, *c, d, e=x.y): ..."), "A", "f")
    )
    assert str(real) == "(self, a, /, b=1, *c, d, e='x.y')"
    with pytest.raises(TypeError, match="unexpected keyword argument 'f'"):
        bound(Call("f", (1,), {"d": 2, "f": 3}), real, None)
    with pytest.raises(TypeError, match="missing a required"):
        bound(Call("f", (1,), {}), real, None)


def _names(calls: list[Call]) -> set[str]:
    return {call.name for call in calls}
