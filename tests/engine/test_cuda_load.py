"""How a runner is put together for a CUDA device, on the CPU against a runtime that checks each call."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import EngineConfig, GraphConfig, Misconfigured, pack
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.cuda import load as cuda_load
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.engine import load_model
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.runner import EagerRunner

from .fake_cuda import CPU, CapturedModel, ReplannedBackend, Runtime, installed
from .vectors import random_ids


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(cuda_load, "capturable", lambda name, *_: None if name == "sdpa" else ReplannedBackend())
    return installed(monkeypatch)


@pytest.fixture
def checkpoint(small: Path) -> Checkpoint:
    return Checkpoint.read(small, "small")


def load(
    checkpoint: Checkpoint, runtime: Runtime, attention: str = "varlen", limits: Limits | None = None, **fields: Any
) -> CudaRunner:
    model: Any = CapturedModel(load_model(checkpoint, torch.float32, CPU), runtime)
    config = EngineConfig(**fields)
    return cuda_load.load(model, attention, config, limits or Limits.of(checkpoint), torch.float32, CPU)


@torch.inference_mode()
def test_a_runner_has_run_before_its_first_batch(checkpoint: Checkpoint, runtime: Runtime) -> None:
    runner = load(checkpoint, runtime)
    assert runner.graphs is not None
    assert runner.graphs.counters.eager_first == 1
    assert runtime.waits == 1, "and what a first run compiles is compiled"
    assert not runner.wants_rest


@torch.inference_mode()
@pytest.mark.parametrize("fields", [{"graphs": None}, {"max_graph_tokens": 0}, {"attention": "sdpa"}])
def test_where_nothing_can_or_may_be_captured_nothing_is(
    checkpoint: Checkpoint, runtime: Runtime, fields: dict[str, Any]
) -> None:
    runner = load(checkpoint, runtime, attention=fields.pop("attention", "varlen"), **fields)
    batch = pack([random_ids(0, 9, 120)])
    for _ in range(3):
        runner.run(batch).numpy()
    assert runner.graphs is None
    assert (runner.wants_rest, runtime.pools) == (False, {})
    runner.rest()


@torch.inference_mode()
def test_the_warm_up_list_is_captured_before_the_first_batch(checkpoint: Checkpoint, runtime: Runtime) -> None:
    runner = load(checkpoint, runtime, warm_up=((1, 64), (2, 32), (3, 50)))
    assert runner.graphs is not None
    assert runner.graphs.counters.captures == 3
    before = runner.graphs.counters.replays
    runner.run(pack([random_ids(0, 64, 120)])).numpy()
    assert runner.graphs.counters.replays == before + 1


@torch.inference_mode()
@pytest.mark.parametrize(
    ("warm_up", "message"),
    [
        ((1, 81), "warm_up has 1 sequences of 81 tokens, for which there can be no graph: .*max_length=80"),
        ((60, 80), "warm_up has 60 sequences of 80 tokens, .*max_graph_tokens=4096 is below that"),
    ],
)
def test_a_warm_up_that_cannot_be_is_refused(
    checkpoint: Checkpoint, runtime: Runtime, warm_up: tuple[int, int], message: str
) -> None:
    with pytest.raises(Misconfigured, match=message):
        load(checkpoint, runtime, warm_up=(warm_up,))


@torch.inference_mode()
@pytest.mark.parametrize("bakes", [True, False])
def test_the_key_has_max_seqlen_only_where_the_launch_has(
    checkpoint: Checkpoint, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, bakes: bool
) -> None:
    monkeypatch.setattr(ReplannedBackend, "bakes_max_seqlen", bakes)
    runner = load(checkpoint, runtime, warm_up=((2, 32), (1, 64)))
    assert runner.graphs is not None
    lengths = {key.max_seqlen for key in runner.graphs._graphs}
    assert lengths == ({64} if bakes else {80})


def test_backends_are_made_for_the_model_and_compiled(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(checkpoint, torch.float32, CPU)
    made: list[tuple[Any, ...]] = []

    class Flash4:
        def __init__(self, *arguments: Any) -> None:
            made.append(("fa4", *arguments))

        def warm(self, device: torch.device) -> None:
            made.append(("warm", device))

    monkeypatch.setattr(cuda_load, "Flash4Backend", Flash4)
    monkeypatch.setattr(cuda_load, "FlashInferBackend", lambda config, *_: made.append((config.kernel, config)))
    monkeypatch.setattr(cuda_load, "VarlenBackend", lambda *arguments: made.append(("varlen", *arguments)))
    monkeypatch.setattr(cuda_load, "num_sms", lambda _: 132)

    def make(name: str, config: EngineConfig) -> None:
        cuda_load.capturable(name, model, config, torch.bfloat16, CPU)

    for name in ("fa4", "varlen", "fa3", "sdpa"):
        make(name, EngineConfig())
    make("fa2", EngineConfig(graphs=None))
    fa3, fa2 = made.pop(3)[1], made.pop(3)[1]
    assert made == [("fa4", model.shapes, torch.bfloat16), ("warm", CPU), ("varlen", model.shapes, torch.bfloat16)]
    assert (fa3.kernel, fa3.max_graph_tokens, fa3.num_sms, fa3.dtype) == ("fa3", 4096, 132, torch.bfloat16)
    assert (fa2.kernel, fa2.max_graph_tokens) == ("fa2", 0)
    with pytest.raises(ValueError, match="This is a bug: there is no attention backend 'fa5'"):
        make("fa5", EngineConfig())


@torch.inference_mode()
def test_graphs_of_a_model_that_leaves_prompts_out_leave_them_out(checkpoint: Checkpoint, runtime: Runtime) -> None:
    limits = replace(Limits.of(checkpoint), include_prompt=False)
    runner = load(checkpoint, runtime, limits=limits, graphs=GraphConfig(defer_s=0))
    plain = EagerRunner(_plain(checkpoint), SdpaBackend())
    sequences = [random_ids(0, 9, 120), random_ids(1, 20, 120)]
    for skips in ([3, 0], [3, 0], [0, 7], None, [1, 1]):
        batch = pack(sequences, skips=skips)
        np.testing.assert_allclose(runner.run(batch).numpy(), plain.run(batch).numpy(), atol=1e-5)
    assert runner.graphs is not None
    assert runner.graphs.counters.replays == 4


def _plain(checkpoint: Checkpoint) -> Model:
    return load_model(checkpoint, torch.float32, CPU)
