"""The process of a backend, from its first line to its last, with the engine's own way to load every backend.

The kernels are stand-ins that compute on the CPU (kernels.py), and the CUDA runtime is one that checks each call.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from gpu import child
from gpu.backend import Backend, CudaBackend
from gpu.bench import Bench, Sizes
from gpu.blueprint import Blueprint
from gpu.child import STAGES, Command, serve
from gpu.finding import Capture, Check, Done, Message, Ready, Stint, Timing
from gpu.older_torch import OlderTorchBackend
from headrace_engine.attention import AttentionShape
from headrace_engine.model import Model

from ..engine.fake_cuda import CPU, CapturedModel, Runtime
from ..engine.kernels import Device
from .fake_gpu import Memory, installed

MODELS = ("MiniLM", "XLM-R-large", "Qwen3-0.6B", "Qwen3 both sides")
CAPTURABLE = ("fa2", "fa4", "varlen", "varlen*")  # fa3 is run as fa2
LADDER = ((1,), (64,), (65,), (20,) * 5, (1,) * 30, (3, 30, 50))
SIZES = Sizes(races=10, shapes=0, case_s=0.001, bulk_s=0.01, bulk=(4, 16))


class AtOnce(list[Callable[[], object]]):
    """A device's queue that does its work as it comes, but for what a fake graph holds back."""

    def append(self, work: Callable[[], object]) -> None:
        work()


class Captured(CapturedModel):
    """As the engine takes a model."""

    @property
    def shapes(self) -> tuple[AttentionShape, ...]:
        return self.model.shapes


def tiny(blueprint: Blueprint, _: Bench) -> Blueprint:
    """Two layers, with heads of 64, which all kernels have, in the place of what suits a GPU."""
    heads = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64}
    return replace(blueprint.small(), config={**blueprint.small().config, **heads}, timed=((8,), (8,) * 3))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> tuple[Runtime, Memory]:
    runtime, memory = installed(monkeypatch)
    kernels = Device(queue=AtOnce())
    monkeypatch.setattr("headrace_engine.attention.varlen.import_attend", lambda: kernels.varlen_attn)
    monkeypatch.setattr("headrace_engine.attention.flash4.import_attend", lambda: kernels.flash_attn_varlen_func)
    monkeypatch.setattr("headrace_engine.attention.flashinfer.import_wrapper", lambda: kernels.wrapper)
    monkeypatch.setattr("gpu.older_torch.attend", kernels.varlen_attn)
    monkeypatch.setattr("headrace_engine.cuda.load.num_sms", lambda _: 16)
    monkeypatch.setattr("gpu.model.Model", lambda *parts: Captured(Model(*parts), runtime))
    monkeypatch.setattr(child, "_sized", tiny)
    monkeypatch.setattr("gpu.captures._TOKENS", (128, 64))
    monkeypatch.setattr("gpu.prepare._BATCHES", ((1,), (1, 20)))
    for stage in ("attention", "rows"):
        monkeypatch.setattr(f"gpu.{stage}.ladder", lambda _: LADDER)
    return runtime, memory


@pytest.fixture
def runtime(device: tuple[Runtime, Memory]) -> Runtime:
    return device[0]


def backend(name: str) -> Backend:
    kind = OlderTorchBackend if name == "varlen*" else CudaBackend
    return kind(name, CPU, torch.bfloat16)


def said(name: str, *stages: str) -> list[Message]:
    """What the process of a backend says when it is told to run these stages."""
    messages: list[Message] = []
    serve(Bench(backend(name), SIZES, lambda: "go"), lines(*stages), messages.append)
    return messages


def lines(*stages: str) -> Iterator[str]:
    return iter([Command(stage, 1000).to_line() for stage in stages])


def failures(messages: list[Message]) -> list[Check]:
    return [message for message in messages if isinstance(message, Check) and message.outcome == "failed"]


@pytest.mark.parametrize("name", CAPTURABLE)
@pytest.mark.whole_run
def test_a_backend_goes_through_all_stages(name: str, device: tuple[Runtime, Memory]) -> None:
    messages = said(name, *STAGES)
    assert not failures(messages)
    assert messages.index(Ready(MODELS)) < messages.index(Done())
    assert messages.count(Done()) == len(STAGES)
    kinds = {type(message) for message in messages}
    assert {Capture, Timing, Stint} <= kinds
    assert {(timing.is_graph) for timing in messages if isinstance(timing, Timing)} == {False, True}
    assert device[1].synchronised > 0
    rows = [check for check in messages if isinstance(check, Check) and check.where.stage == "rows"]
    assert [check.outcome for check in rows] == ["passed"] * 9


def test_a_backend_without_graphs_goes_through_all_stages(runtime: Runtime) -> None:
    messages = said("sdpa", *STAGES)
    assert not failures(messages)
    assert not any(call.endswith("replay") for call in runtime.calls)


@pytest.mark.usefixtures("device")
def test_a_model_that_a_backend_cannot_run_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_sized", lambda blueprint, _: blueprint.small())  # with heads of 16
    messages = said("fa3", "attention")
    assert messages[-2:] == [Ready(()), Done()]
    assert [message.detail for message in messages if isinstance(message, Check)] == [
        "FlashInfer has kernels for heads of 64, 128 and 256, not 16"
    ] * 4


@pytest.mark.usefixtures("device")
def test_a_backend_that_cannot_be_imported_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr("headrace_engine.attention.flash4.import_attend", missing)
    messages = said("fa4")
    assert messages[-1] == Ready(())
    assert {check.detail for check in failures(messages)} == {
        "ImportError: libcudart.so.13: cannot open shared object file"
    }


@pytest.mark.usefixtures("device")
def test_a_stage_that_raises_fails_for_its_model_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def stage(_: Bench, blueprint: Blueprint, __: object) -> Iterator[Message]:
        if blueprint.name == "MiniLM":
            raise torch.OutOfMemoryError("CUDA out of memory")
        yield Done()

    monkeypatch.setattr(child, "STAGES", {"rows": (stage, STAGES["rows"][1])})
    messages = said("varlen", "rows")
    (check,) = failures(messages)
    assert (check.where.model, check.detail) == ("MiniLM", "torch.OutOfMemoryError: CUDA out of memory")
    assert messages.count(Done()) == 3


def test_a_device_that_takes_no_more_work_ends_the_process(device: tuple[Runtime, Memory]) -> None:
    messages: list[Message] = []

    def told() -> Iterator[str]:
        yield from lines("attention")
        device[1].error = "CUDA error: an illegal memory access was encountered"
        yield from lines("host")
        raise AssertionError("it went on")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        serve(Bench(backend("varlen"), SIZES, lambda: "go"), told(), messages.append)


@pytest.mark.usefixtures("device")
def test_a_stage_without_time_is_left_out() -> None:
    messages: list[Message] = []
    line = json.dumps({"stage": "rows", "seconds": 0})
    serve(Bench(backend("varlen"), SIZES, lambda: "go"), iter([line]), messages.append)
    left_out: list[Any] = [message for message in messages if isinstance(message, Check)]
    assert [check.detail for check in left_out] == ["its time was used up"] * 3
