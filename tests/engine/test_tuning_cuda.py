"""Attention and graphs measured on the CPU: a small real model, CUDA's fake runtime, and a clock that backends move."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from headrace_engine import CheckpointError, DeviceNotFound, EngineConfig
from headrace_engine.attention.select import PUBLISHED, Case, Row, choose
from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.cuda.load import load
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.engine import load_model
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.tuning import measure_attention, measure_graph_tokens
from headrace_engine.tuning.apart import Lost
from headrace_engine.tuning.ladder import RUNGS
from headrace_engine.tuning.target import Target

from .checkpoints import change_tensors
from .fake_cuda import CPU, CapturedModel, ReplannedAttention, ReplannedBackend, Runtime, installed
from .recording import Clock

CONFIG, EAGER = EngineConfig(), EngineConfig(graphs=None)
ABLE = ("fa4", "varlen", "sdpa")
CAPTURE_S = 5.0


@dataclass
class Costs:
    """What an attention backend takes.

    Attributes:
        launch_ms: Eagerly, for each plan.
        token_us: For each token of a batch, padding among them, eagerly or not.
        length_us: For each token of its longest sequence, times the tokens of the batch.
        max_graph_tokens: It captures no more.
        error: What its making raises, if anything.
    """

    launch_ms: float = 1
    token_us: float = 1000
    length_us: float = 0
    max_graph_tokens: int = 10**6
    error: Exception | None = None

    def work_s(self, batch: RaggedBatch) -> float:
        return batch.num_tokens * (self.token_us + self.length_us * batch.max_seqlen) / 1e6


class TimedBackend(ReplannedBackend):
    """CPU attention that moves a clock."""

    def __init__(self, costs: Costs, machine: "Machine") -> None:
        self.costs, self.machine = costs, machine

    def plan(self, batch: RaggedBatch) -> Any:
        self.machine.clock.now_s += self.costs.launch_ms / 1e3 + self.costs.work_s(batch)
        return super().plan(batch)

    def plan_static(self, static: RaggedBatch) -> "TimedAttention":
        if static.num_tokens > self.costs.max_graph_tokens:
            message = "the workspace is too small"
            raise RuntimeError(message)
        return TimedAttention(self, static)


class TimedAttention(ReplannedAttention):
    """A replay's plan: no launches to pay for."""

    def __init__(self, backend: TimedBackend, static: RaggedBatch) -> None:
        self.timed = backend
        super().__init__(ReplannedBackend(), static)
        backend.machine.clock.now_s += CAPTURE_S

    def update(self, padded: RaggedBatch) -> None:
        self.timed.machine.clock.now_s += self.timed.costs.work_s(padded)
        super().update(padded)


@dataclass
class Machine:
    """A CUDA device whose backends take what they are told."""

    runtime: Runtime
    clock: Clock = field(default_factory=Clock)
    costs: dict[str, Costs] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    def backend(self, name: str) -> TimedBackend:
        costs = self.costs.get(name, Costs())
        if costs.error is not None:
            raise costs.error
        self.made.append(name)
        return TimedBackend(costs, self)

    def capturable(self, name: str, *_: Any) -> TimedBackend | None:
        return None if name == "sdpa" else self.backend(name)

    def load(self, model: Model, attention: str, config: EngineConfig, limits: Limits, *_: Any) -> CudaRunner:
        captured = cast("Model", CapturedModel(model, self.runtime))
        return load(captured, attention, config, limits, torch.bfloat16, CPU)

    def load_runner(self, checkpoint: Checkpoint, config: EngineConfig, *_: Any) -> CudaRunner:
        model = load_model(checkpoint, torch.bfloat16, CPU)
        with torch.inference_mode():
            return self.load(model, config.attention, config, Limits.of(checkpoint))

    def here(self, run: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:  # noqa: ARG002 - the interface's
        """As `apart`, but in this process, where the device is."""
        try:
            with torch.inference_mode():  # the fake copies late, where a device would have been told to at once
                return run(*arguments, clock=self.clock)
        except Exception as error:  # noqa: BLE001 - as in a process of its own
            raise Lost(repr(error)) from None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(installed(monkeypatch))

    def find(name: str) -> torch.device:
        if name not in {"cuda", "cuda:0"}:
            raise DeviceNotFound(name)
        return torch.device("cuda:0")

    def load_model_here(checkpoint: Checkpoint, dtype: torch.dtype, _: torch.device) -> Model:
        return load_model(checkpoint, dtype, CPU)

    replaced: Mapping[str, Any] = {
        "cuda.device.is_there": lambda: True,
        "cuda.device.find": find,
        "cuda.device.name": lambda _: "a GPU",
        "cuda.device.capability": lambda _: (9, 0),
        "cuda.load.capturable": machine.capturable,
        "cuda.load.SdpaBackend": lambda: machine.backend("sdpa"),
        "engine.load_runner": machine.load_runner,
        "tuning.attention.missing_backends": lambda _: machine.missing,
        "tuning.graph_tokens.missing_backends": lambda _: machine.missing,
        "tuning.graph_tokens.load": machine.load,
        "tuning.mix._TOKENS": 1024,  # for the sake of time
        "tuning.graph_tokens.load_model": load_model_here,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(f"headrace_engine.{name}", value)
    return machine


@pytest.fixture
def checkpoint(small: Path) -> Checkpoint:
    """Heads of 8, which fa4, varlen and sdpa can compute."""
    return Checkpoint.read(small, "small")


def attention(machine: Machine, checkpoint: Checkpoint, config: EngineConfig = CONFIG) -> tuple[Row, ...]:
    return measure_attention(checkpoint, config, 60, run=machine.here)


def graph_tokens(machine: Machine, checkpoint: Checkpoint, budget_s: float = 1e6, **fields: Any) -> int | None:
    return measure_graph_tokens(checkpoint, replace(CONFIG, **fields), budget_s, run=machine.here)


def case_of(checkpoint: Checkpoint) -> Case:
    target = Target.of(checkpoint, CONFIG)
    assert target is not None
    return target.case


def kept_models() -> list[Model]:
    gc.collect()
    return [found for found in gc.get_objects() if type(found) is Model]


# Attention


@pytest.mark.parametrize("order", list(permutations(ABLE))[1:4])
def test_backends_are_ordered_by_what_their_steps_take(
    machine: Machine, checkpoint: Checkpoint, order: tuple[str, ...]
) -> None:
    machine.costs = {name: Costs(token_us=1000 * 3**place) for place, name in enumerate(order)}
    [row] = rows = attention(machine, checkpoint)
    assert row.order == order
    assert (row.max_length, row.head_dims, row.capabilities) == (80, (8, 8), ((9, 0), (9, 1)))
    assert all(f"{name} " in row.source for name in order)
    choice = choose(case_of(checkpoint), {}, table=(*rows, *PUBLISHED))
    assert (choice.backend, choice.reason) == (order[0], row.source)


def test_one_that_is_faster_for_long_texts_only_comes_first_where_they_are_long(
    machine: Machine, checkpoint: Checkpoint
) -> None:
    machine.costs = {
        "fa4": Costs(token_us=1000, length_us=80),
        "varlen": Costs(token_us=3300),
        "sdpa": Costs(token_us=9000),
    }
    short, long = attention(machine, checkpoint, EAGER)
    assert (short.max_length, short.order) == (20, ("fa4", "varlen", "sdpa"))
    assert (long.max_length, long.order) == (80, ("varlen", "fa4", "sdpa"))


def test_ties_are_in_the_published_order(machine: Machine, checkpoint: Checkpoint) -> None:
    [row] = attention(machine, checkpoint, EAGER)
    assert row.order == ("fa4", "varlen", "sdpa")


def test_a_backend_that_raises_is_left_out_and_said(
    machine: Machine, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    machine.costs["varlen"] = Costs(error=RuntimeError("no kernel image"))
    [row] = rows = attention(machine, checkpoint, EAGER)
    assert row.order == ("fa4", "sdpa")
    assert [record.getMessage() for record in caplog.records] == [
        "attention by varlen is left out of the measured order: RuntimeError('no kernel image')"
    ]
    assert choose(case_of(checkpoint), {}, table=rows).backend == "fa4"


def test_what_is_not_installed_is_not_tried(machine: Machine, checkpoint: Checkpoint) -> None:
    machine.missing = {"fa4": "pip install it"}
    [row] = attention(machine, checkpoint)
    assert set(row.order) == set(machine.made) == {"varlen", "sdpa"}


def test_a_query_is_replayed_where_there_are_graphs(machine: Machine, checkpoint: Checkpoint) -> None:
    machine.costs = {"fa4": Costs(launch_ms=1000), "varlen": Costs(launch_ms=500)}
    machine.missing = {"sdpa": "left out"}
    attention(machine, checkpoint, replace(CONFIG, warm_up=((1, 64),)))
    assert any(call.endswith("replay") for call in machine.runtime.calls)
    machine.runtime.calls.clear()
    attention(machine, checkpoint, EAGER)
    assert not any(call.endswith("replay") for call in machine.runtime.calls)


def test_nothing_is_kept_of_engines_and_graphs(machine: Machine, checkpoint: Checkpoint) -> None:
    before = len(kept_models())
    attention(machine, checkpoint)
    graph_tokens(machine, checkpoint, budget_s=10)
    assert len(kept_models()) == before
    assert machine.runtime.pools
    assert set(machine.runtime.pools.values()) == {0}


def test_the_budget_is_shared_and_what_is_left_goes_to_those_that_compile(
    machine: Machine, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    shares: list[tuple[str, float]] = []

    def run(run: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:  # noqa: ARG001 - the interface's
        shares.append((arguments[1].attention, timeout_s))
        message = "there was no result"
        raise Lost(message)

    assert measure_attention(checkpoint, CONFIG, 90, run=run) == ()
    assert [name for name, _ in shares] == ["sdpa", "varlen", "fa4"]
    assert all(timeout_s <= most for (_, timeout_s), most in zip(shares, (30, 45, 90), strict=True))
    assert len(caplog.records) == 3
    assert not machine.made


def test_a_cpu_has_no_table_and_no_graphs(checkpoint: Checkpoint) -> None:
    config = EngineConfig(device="cpu", dtype="float32")
    assert measure_attention(checkpoint, config, 60) == ()
    assert measure_graph_tokens(checkpoint, config, 60) is None


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("measure", [measure_attention, measure_graph_tokens])
def test_a_device_that_is_not_there_and_a_broken_checkpoint_are_refused(
    checkpoint: Checkpoint, measure: Callable[..., Any]
) -> None:
    with pytest.raises(DeviceNotFound):
        measure(checkpoint, EngineConfig(device="cuda:7"), 60)
    change_tensors(checkpoint.path, lambda tensors: tensors.pop("embeddings.LayerNorm.bias"))
    with pytest.raises(CheckpointError):
        measure(checkpoint, CONFIG, 60)


# Graphs


@pytest.mark.parametrize(("launch_ms", "limit"), [(5, 512), (2, 0)])
def test_graphs_pay_up_to_where_launches_are_three_percent(
    machine: Machine, checkpoint: Checkpoint, launch_ms: float, limit: int
) -> None:
    """A token takes 100 µs, and half a step of padding comes on top; captures take seconds, and are not counted."""
    machine.costs = {"fa4": Costs(launch_ms=launch_ms, token_us=100)}
    assert graph_tokens(machine, checkpoint) == limit


def test_the_ladder_ends_where_a_capture_fails(
    machine: Machine, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    machine.costs = {"fa4": Costs(launch_ms=1000, token_us=100, max_graph_tokens=512)}
    assert graph_tokens(machine, checkpoint) == 512
    assert "graphs are measured up to 512 tokens only" in caplog.text


def test_where_nothing_can_be_captured_there_is_no_limit_and_it_is_said(
    machine: Machine, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    machine.costs = {"fa4": Costs(max_graph_tokens=0)}
    assert graph_tokens(machine, checkpoint) is None
    assert caplog.records[-1].getMessage() == (
        "from how many tokens on graphs pay with fa4 could not be measured: "
        "RuntimeError('a batch of 32 tokens in 1 sequences cannot be captured')"
    )


@pytest.mark.parametrize("fields", [{"attention": "sdpa"}, {"graphs": None}])
def test_without_graphs_there_is_no_limit(machine: Machine, checkpoint: Checkpoint, fields: dict[str, Any]) -> None:
    assert graph_tokens(machine, checkpoint, **fields) is None
    assert machine.runtime.pools == {}


def test_no_further_rung_is_begun_once_the_budget_is_used_up(machine: Machine, checkpoint: Checkpoint) -> None:
    machine.costs = {"fa4": Costs(launch_ms=1000, token_us=100)}
    assert graph_tokens(machine, checkpoint, budget_s=10) == RUNGS[0]


def test_graphs_are_measured_with_the_backend_that_the_table_chooses(machine: Machine, checkpoint: Checkpoint) -> None:
    measured = Row(capabilities=((9, 0), (9, 1)), order=("varlen",), source="measured here")
    graph_tokens(machine, checkpoint, budget_s=10, table=(measured,))
    assert set(machine.made) == {"varlen"}
