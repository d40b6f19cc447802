"""The CUDA edge, run on the CPU against a runtime that checks each call (fake_cuda.py)."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from headrace_engine import Engine, EngineConfig, GraphConfig, RaggedBatch, pack
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.buckets import Buckets, GraphKey
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaEager, CudaGraphs
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.engine import load_model
from headrace_engine.graphs import Graphs
from headrace_engine.model import Model
from headrace_engine.runner import EagerRunner

from .fake_cuda import CPU, CapturedModel, ReplannedBackend, Runtime, installed
from .vectors import random_ids

ENGINE = Path(__file__).parents[2] / "engine" / "headrace_engine"
VOCAB, MAX_LENGTH = 120, 80


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    return installed(monkeypatch)


@pytest.fixture
def model(small: Path) -> Model:
    return load_model(Checkpoint.read(small, "small"), torch.float32, CPU)


def random_batch(rng: np.random.Generator, most: int = 12) -> RaggedBatch:
    lengths = rng.integers(1, MAX_LENGTH, rng.integers(1, most))
    return pack([rng.integers(0, VOCAB, length).astype(np.uint32) for length in lengths])


def runner(model: Model, runtime: Runtime, **config: Any) -> CudaRunner:
    copies = Copies(CPU)
    backend = CudaGraphs(cast("Model", CapturedModel(model, runtime)), ReplannedBackend(), copies, has_segments=True)
    buckets = Buckets(max_tokens=1024, max_length=MAX_LENGTH, buckets_max_seqlen=True)
    return CudaRunner(backend, Graphs(backend, buckets, GraphConfig(**config)), copies)


def test_torch_cuda_is_named_in_the_cuda_files_only() -> None:
    naming = {file.relative_to(ENGINE).parts[0] for file in ENGINE.rglob("*.py") if "torch.cuda" in file.read_text()}
    assert naming == {"cuda"}


@torch.inference_mode()
def test_eager_and_replayed_rows_are_those_of_the_plain_way(model: Model, runtime: Runtime) -> None:
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    rng = np.random.default_rng(1)
    for _ in range(300):
        batch = random_batch(rng)
        np.testing.assert_allclose(cuda.run(batch).numpy(), plain.run(batch).numpy(), atol=1e-5)
    assert cuda.graphs is not None
    counters = cuda.graphs.counters
    assert counters.replays > 50
    assert counters.eager_first > 5
    assert counters.failed_captures == 0


@torch.inference_mode()
def test_batches_in_flight_do_not_disturb_each_other(model: Model, runtime: Runtime) -> None:
    """Rows are read only after the next two batches were queued; staging buffers and graph rows must not be theirs."""
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    rng = np.random.default_rng(2)
    batches = [random_batch(rng, 5) for _ in range(200)]
    unread = []
    for batch in batches:
        unread.append((batch, cuda.run(batch)))
        if len(unread) > 2:
            before, rows = unread.pop(0)
            np.testing.assert_allclose(rows.numpy(), plain.run(before).numpy(), atol=1e-5)


@torch.inference_mode()
def test_segments_reach_the_device_eagerly_and_in_a_graph(model: Model, runtime: Runtime) -> None:
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    ids, segments = random_ids(0, 10, VOCAB), np.array([0] * 4 + [1] * 6, np.uint8)
    with_segments, without = pack([ids], [segments]), pack([ids])
    assert not np.allclose(plain.run(with_segments).numpy(), plain.run(without).numpy(), atol=1e-3)
    for batch in (with_segments, with_segments, without, with_segments):
        np.testing.assert_allclose(cuda.run(batch).numpy(), plain.run(batch).numpy(), atol=1e-5)


@torch.inference_mode()
def test_rows_leave_on_their_own_cuda_stream_behind_the_computation(model: Model, runtime: Runtime) -> None:
    copies = Copies(CPU)
    cuda = CudaRunner(CudaEager(model, SdpaBackend(), copies), None, copies)
    runtime.calls.clear()
    lazy = cuda.run(pack([random_ids(0, 5, VOCAB)]))
    assert runtime.calls == [
        "stream 1: event",  # the batch is on its way
        "stream 1: event",  # the rows are computed
        "stream 1: stream 0 waits for an event of stream 1",
        "stream 0: event",  # the rows are here
    ]
    assert not lazy.done()
    assert lazy.numpy().shape == (1, 32)
    assert lazy.done()


@torch.inference_mode()
def test_a_capture_has_its_own_cuda_stream_and_leaves_other_threads_alone(model: Model, runtime: Runtime) -> None:
    backend = CudaGraphs(
        cast("Model", CapturedModel(model, runtime)), ReplannedBackend(), Copies(CPU), has_segments=True
    )
    with torch.cuda.stream(torch.cuda.Stream(CPU)):
        graph = backend.capture(GraphKey(64, 2, MAX_LENGTH))
        assert runtime.calls == [
            "stream 2: stream 1 waits for stream 2",
            "stream 1: begin thread_local in (0, 1)",
            "stream 1: end",
            "stream 2: stream 2 waits for stream 1",
        ]
        runtime.calls.clear()
        graph.release()
    assert runtime.calls == ["stream 2: synchronize stream 2", "stream 2: reset"]


@torch.inference_mode()
def test_a_capture_that_fails_is_ended_and_the_batch_runs_eagerly(
    model: Model, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    runtime.capture_error = "operation not permitted when stream is capturing"
    batch = pack([random_ids(0, 9, VOCAB)])
    for _ in range(4):
        np.testing.assert_allclose(cuda.run(batch).numpy(), plain.run(batch).numpy(), atol=1e-5)
    assert runtime.capturing is None
    assert [record for record in caplog.records if "not permitted" in record.getMessage()] == caplog.records
    assert len(caplog.records) == 1


@torch.inference_mode()
def test_a_graph_waits_for_an_idle_moment(model: Model, runtime: Runtime) -> None:
    cuda = runner(model, runtime, defer_s=1000)
    batch = pack([random_ids(0, 9, VOCAB)])
    for _ in range(3):
        cuda.run(batch)
    assert cuda.wants_rest
    assert cuda.graphs is not None
    assert cuda.graphs.num_graphs == 0
    cuda.rest()
    assert (cuda.graphs.num_graphs, cuda.wants_rest) == (1, False)
    cuda.run(batch)
    assert runtime.calls.count("stream 2: replay") == 1


def test_a_cuda_device_that_is_not_there_is_named(small: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(Exception, match=r"device='cuda:3'.*set device='cpu'"):
        Engine.load(small, EngineConfig(device="cuda:3"))
