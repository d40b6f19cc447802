"""The CUDA edge, run on the CPU against a runtime that checks each call (fake_cuda.py)."""

import gc
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from headrace_engine import Engine, EngineConfig, GraphConfig, LazyTensor, RaggedBatch, pack
from headrace_engine.attention import Attention
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.buckets import Buckets, GraphKey
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaCaptures, CudaEager
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


def random_batch(rng: np.random.Generator, most: int = 12, *, skips: bool = False) -> RaggedBatch:
    lengths = rng.integers(1, MAX_LENGTH, rng.integers(1, most))
    sequences = [rng.integers(0, VOCAB, length).astype(np.uint32) for length in lengths]
    return pack(sequences, skips=rng.integers(0, lengths).tolist() if skips else None)


def runner(model: Model, runtime: Runtime, **config: Any) -> CudaRunner:
    copies = Copies(CPU)
    captured = cast("Model", CapturedModel(model, runtime))
    backend = CudaCaptures(captured, ReplannedBackend(), copies, has_segments=True, has_skips=True)
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
def test_skips_reach_the_device_eagerly_and_in_a_graph(model: Model, runtime: Runtime) -> None:
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    rng = np.random.default_rng(3)
    for turn in range(200):
        batch = random_batch(rng, skips=turn % 3 > 0)
        np.testing.assert_allclose(cuda.run(batch).numpy(), plain.run(batch).numpy(), atol=1e-5)
    assert cuda.graphs is not None
    assert cuda.graphs.counters.replays > 30
    assert cuda.graphs.counters.failed_captures == 0


@torch.inference_mode()
@pytest.mark.usefixtures("runtime")
def test_a_batch_is_the_same_on_the_device_whatever_it_has() -> None:
    copies = Copies(CPU)
    ids, ones = [random_ids(n, n, VOCAB) for n in (5, 3)], [np.ones(n, np.uint8) for n in (5, 3)]
    with torch.cuda.stream(torch.cuda.Stream(CPU)):
        for batch in (pack(ids), pack(ids, ones), pack(ids, skips=[4, 1]), pack(ids, ones, [4, 1])):
            there = copies.upload(batch)
            for name in ("token_ids", "positions", "cu_seqlens", "segment_ids", "skips"):
                found, sent = getattr(there, name), getattr(batch, name)
                assert (found is None) == (sent is None), name
                assert sent is None or (found.dtype == sent.dtype and found.equal(sent)), name


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
    backend = CudaCaptures(
        cast("Model", CapturedModel(model, runtime)), ReplannedBackend(), Copies(CPU), has_segments=True
    )
    with torch.cuda.stream(torch.cuda.Stream(CPU)):
        runtime.calls.clear()
        graph = backend.capture(GraphKey(64, 2, MAX_LENGTH))
        assert runtime.calls == [
            "stream 2: stream 1 waits for stream 2",
            "stream 1: workspaces cleared",
            "stream 1: begin thread_local in (0, 1)",
            "stream 1: end",
            "stream 1: workspaces cleared",
            "stream 2: stream 2 waits for stream 1",
        ]
        runtime.calls.clear()
        graph.release()
    assert runtime.calls == ["stream 2: synchronize stream 2", "stream 2: reset"]


@torch.inference_mode()
def test_the_computing_cuda_stream_waits_for_the_weights(model: Model, runtime: Runtime) -> None:
    runner(model, runtime)
    assert "default: stream 2 waits for default" in runtime.calls


@torch.inference_mode()
def test_a_model_runs_before_it_is_captured_and_nothing_is_collected_meanwhile(model: Model, runtime: Runtime) -> None:
    collects: list[tuple[bool, bool]] = []

    def watched(batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        collects.append((runtime.capturing is not None, gc.isenabled()))
        return model(batch, attention)

    backend = CudaCaptures(cast("Model", watched), ReplannedBackend(), Copies(CPU), has_segments=True)
    with torch.cuda.stream(torch.cuda.Stream(CPU)):
        backend.capture(GraphKey(64, 2, MAX_LENGTH))
    assert collects == [(False, True), (True, False)]
    assert gc.isenabled()


@torch.inference_mode()
@pytest.mark.usefixtures("runtime")
def test_a_graph_has_segments_only_where_the_model_has(model: Model) -> None:
    for has_segments in (True, False):
        seen: list[RaggedBatch] = []

        def watched(batch: RaggedBatch, attention: Attention, seen: list[RaggedBatch] = seen) -> torch.Tensor:
            seen.append(batch)
            return model(batch, attention)

        backend = CudaCaptures(cast("Model", watched), ReplannedBackend(), Copies(CPU), has_segments=has_segments)
        with torch.cuda.stream(torch.cuda.Stream(CPU)):
            backend.capture(GraphKey(64, 2, MAX_LENGTH))
        assert [batch.segment_ids is not None for batch in seen] == [has_segments] * 2


@torch.inference_mode()
def test_a_buffer_is_not_written_over_while_its_copy_may_read_it(runtime: Runtime) -> None:
    copies, there = Copies(CPU), torch.zeros(4)
    with torch.cuda.stream(torch.cuda.Stream(CPU)):
        for _ in range(20):
            copies.write(there, torch.ones(4))
    assert runtime.waits > 0, "nothing had happened yet, so after some buffers one had to be waited for"


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
    assert "stream 2: synchronize stream 1" in runtime.calls, "its first run may still read what is given back"
    assert [record for record in caplog.records if "not permitted" in record.getMessage()] == caplog.records
    assert len(caplog.records) == 1


@torch.inference_mode()
def test_after_a_failed_capture_other_shapes_are_captured_all_the_same(model: Model, runtime: Runtime) -> None:
    plain, cuda = EagerRunner(model, SdpaBackend()), runner(model, runtime, defer_s=0)
    short, long = pack([random_ids(0, 9, VOCAB)]), pack([random_ids(0, 70, VOCAB)])
    runtime.capture_error = "operation not permitted when stream is capturing"
    cuda.run(short)
    cuda.run(short)
    runtime.capture_error = None
    for _ in range(3):
        np.testing.assert_allclose(cuda.run(long).numpy(), plain.run(long).numpy(), atol=1e-5)
    assert cuda.graphs is not None
    assert (cuda.graphs.counters.failed_captures, cuda.graphs.counters.replays) == (1, 2)
    cuda.graphs.release()
    for _ in range(3):
        np.testing.assert_allclose(cuda.run(short).numpy(), plain.run(short).numpy(), atol=1e-5)
    assert cuda.graphs.counters.replays == 4


@torch.inference_mode()
def test_a_steady_stream_of_batches_never_waits_for_a_buffer(model: Model, runtime: Runtime) -> None:
    """With two in flight, only the reader waits for the device."""
    cuda = runner(model, runtime, defer_s=0)
    rng = np.random.default_rng(4)
    unread: list[LazyTensor] = []
    for _ in range(200):
        waits = runtime.waits
        unread.append(cuda.run(random_batch(rng, 5)))
        assert runtime.waits == waits
        if len(unread) > cuda.max_in_flight:
            unread.pop(0).numpy()


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
