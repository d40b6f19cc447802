import sys
from dataclasses import replace

import pytest
import torch
from headrace_engine import RaggedBatch, UnsupportedModel
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.flashinfer import FlashInferBackend, import_wrapper
from headrace_engine.attention.flashinfer_plan import StaticFlashInferAttention
from headrace_engine.attention.reference import Inputs, attend_by_definition
from headrace_engine.attention.workspace import Kernel, Workspace
from headrace_engine.buckets import Buckets, GraphKey, pad
from headrace_engine.static_batch import StaticBatch

from .kernels import Device
from .recording import CPU, batch_of

PLAIN = AttentionShape(num_heads=4, num_kv_heads=2, head_dim=64)
SHAPES = (
    PLAIN,
    replace(PLAIN, causal=True),
    replace(PLAIN, causal=True, window=8),
    replace(PLAIN, scale=0.3),
    replace(PLAIN, num_kv_heads=4, head_dim=128),
)
BUCKETS = Buckets(max_tokens=256, max_length=256, buckets_max_seqlen=False)
KEY = GraphKey(128, 8, 256)
HALF = torch.float16


def static_of(backend: FlashInferBackend, key: GraphKey = KEY) -> tuple[StaticBatch, StaticFlashInferAttention]:
    static = StaticBatch.allocate(key, CPU, has_segments=False)
    return static, backend.plan_static(static.batch)


def expected(batch: RaggedBatch, inputs: Inputs, shape: AttentionShape) -> torch.Tensor:
    rows = attend_by_definition(inputs.query, inputs.key, inputs.value, batch.host_cu_seqlens, shape)
    return rows.to(inputs.query.dtype)


def test_what_is_planned_and_run_is_attention() -> None:
    device = Device()
    backend = device.flashinfer(*SHAPES)
    for seed in range(3):
        batch = batch_of(3, 17, 9 + seed)
        attention = backend.plan(batch)
        for shape in SHAPES:
            inputs = Inputs.draw(batch, shape, HALF, seed)
            attended = attention.run(inputs.query, inputs.key, inputs.value, shape)
            device.drain()
            torch.testing.assert_close(attended, expected(batch, inputs, shape))


def test_plans_in_flight_do_not_disturb_each_other() -> None:
    device = Device()
    backend = device.flashinfer(PLAIN)
    batches = [batch_of(4, 5 + index, 30 - index) for index in range(9)]
    inputs = [Inputs.draw(batch, PLAIN, HALF, index) for index, batch in enumerate(batches)]
    attended = [
        backend.plan(batch).run(drawn.query, drawn.key, drawn.value, PLAIN)
        for batch, drawn in zip(batches, inputs, strict=True)
    ]
    device.drain()
    for batch, drawn, rows in zip(batches, inputs, attended, strict=True):
        torch.testing.assert_close(rows, expected(batch, drawn, PLAIN))


def test_as_many_plans_as_its_depth_are_made_before_one_waits_for_a_copy() -> None:
    device = Device()
    backend = device.flashinfer(PLAIN, depth=3)
    for index in range(3):
        backend.plan(batch_of(5, 6 + index))
    assert [event.waits for event in device.events] == [0, 0, 0]
    backend.plan(batch_of(4, 9))
    assert [event.waits for event in device.events] == [1, 0, 0, 0]


def test_one_event_is_recorded_behind_the_copies_of_all_shapes() -> None:
    device = Device()
    device.flashinfer(*SHAPES).plan(batch_of(5, 6))
    assert len(device.called("plan")) == len(SHAPES)
    assert len(device.events) == 1
    assert device.queue[-1] == device.events[0].fire


def test_a_plan_that_fails_still_has_its_copies_guarded() -> None:
    device = Device()
    backend = device.flashinfer(PLAIN, replace(PLAIN, causal=True), depth=1)
    first = backend.plan(batch_of(5, 6))
    broken = first._wrappers[replace(PLAIN, causal=True)]
    broken.plan = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        backend.plan(batch_of(7, 8))
    assert len(device.events) == 2
    with pytest.raises(ZeroDivisionError):
        backend.plan(batch_of(7, 8))
    assert device.events[1].waits == 1


def test_a_replay_reads_the_lengths_of_its_own_batch() -> None:
    device = Device()
    backend = device.flashinfer(*SHAPES)
    static, attention = static_of(backend)
    device.drain()
    attended = []
    for seed, lengths in enumerate([(3, 70, 11), (100, 1, 2, 3), (60, 60), (16,) * 8]):
        padded = pad(batch_of(*lengths), KEY)
        static.fill(padded, torch.Tensor.copy_)
        attention.update(padded)
        for shape in SHAPES:
            inputs = Inputs.draw(padded, shape, HALF, seed)
            attended.append((padded, shape, inputs, attention.run(inputs.query, inputs.key, inputs.value, shape)))
        device.drain()
    for padded, shape, inputs, rows in attended:
        torch.testing.assert_close(rows, expected(padded, inputs, shape))


def test_replays_of_one_key_wait_for_the_copy_of_the_plan_before() -> None:
    device = Device()
    _, attention = static_of(device.flashinfer(PLAIN))
    runs = []
    for seed, lengths in enumerate([(3, 70, 11), (100, 1, 2, 3), (60, 60)]):
        padded = pad(batch_of(*lengths), KEY)
        attention.update(padded)
        inputs = Inputs.draw(padded, PLAIN, HALF, seed)
        runs.append((padded, inputs, attention.run(inputs.query, inputs.key, inputs.value, PLAIN)))
    device.drain()
    for padded, inputs, rows in runs:
        torch.testing.assert_close(rows, expected(padded, inputs, PLAIN))


def test_the_first_plan_of_a_graph_covers_all_of_its_rows() -> None:
    device = Device()
    static_of(device.flashinfer(PLAIN))
    (plan,) = device.called("plan")
    assert int(plan.args[0][-1]) == KEY.num_tokens
    assert len(plan.args[0]) == KEY.num_sequences + 1


def test_a_plan_does_not_change_when_the_batch_is_written_over() -> None:
    device = Device()
    static, _ = static_of(device.flashinfer(PLAIN))
    static.batch.host_cu_seqlens[:] = 0
    assert int(device.called("plan")[0].args[0][-1]) == KEY.num_tokens


@pytest.mark.parametrize("lengths", [(100,), (64, 64), (120, 1, 1, 1, 1, 1, 1, 1)])
def test_a_batch_of_other_sizes_than_the_graph_is_refused(lengths: tuple[int, ...]) -> None:
    _, attention = static_of(Device().flashinfer(PLAIN))
    with pytest.raises(ValueError, match="128 in 8: pad it"):
        attention.update(batch_of(*lengths))


def test_graphs_share_the_workspace_and_have_their_own_list_of_work() -> None:
    device = Device()
    backend = device.flashinfer(PLAIN, kernel="fa3")
    static_of(backend)
    static_of(backend, GraphKey(192, 16, 256))
    made = device.called("__init__")
    assert all(call.args[0] is made[0].args[0] for call in made)
    lists = [call.args[1] for call in device.called("reset_workspace_buffer")]
    assert len({buffer.data_ptr() for buffer in lists}) == len(lists) == 2
    assert lists[1].numel() < 100_000


def test_a_graph_that_could_need_more_than_the_workspace_is_refused_before_anything_is_made() -> None:
    device = Device()
    backend = device.flashinfer(PLAIN, max_graph_tokens=4096, max_workspace_bytes=8 * 2**20)
    assert backend.num_bytes <= 8 * 2**20
    made = len(device.called("__init__"))
    with pytest.raises(RuntimeError, match="fa2 may need"):
        static_of(backend, GraphKey(4096, 2048, 4096))
    assert len(device.called("__init__")) == made
    static_of(backend, GraphKey(64, 2, 256))


def test_the_workspace_holds_every_graph_that_is_not_refused() -> None:
    backend = Device().flashinfer(PLAIN, max_graph_tokens=256)
    for tokens, sequences in [(64, 1), (64, 64), (256, 1), (256, 256)]:
        static_of(backend, GraphKey(tokens, sequences, 256))


QWEN = AttentionShape(num_heads=16, num_kv_heads=8, head_dim=128)


@pytest.mark.parametrize(("tokens", "sequences", "megabytes"), [(4096, 8, 75), (51_200, 100, 950), (4096, 512, 608)])
def test_partial_results_take_what_the_planner_reserves(tokens: int, sequences: int, megabytes: int) -> None:
    found = Workspace(kernel="fa2", num_sms=132).graph_float_bytes(QWEN, tokens, sequences)
    assert found == pytest.approx(megabytes * 1e6, rel=0.01)


@pytest.mark.parametrize(
    ("kernel", "tokens", "sequences", "num_bytes"),
    # What FlashInfer 0.7.2's own planners allocate on 132 multiprocessors, compiled for a CPU.
    [
        ("fa2", 4096, 8, 17_399),
        ("fa2", 64, 64, 1_495),
        ("fa2", 51_200, 100, 216_947),
        ("fa3", 4096, 8, 18_016),
        ("fa3", 8192, 8192, 231_708),
    ],
)
def test_lists_of_work_fit_what_is_allocated_for_them(
    kernel: Kernel, tokens: int, sequences: int, num_bytes: int
) -> None:
    found = Workspace(kernel=kernel, num_sms=132).graph_int_bytes(QWEN, tokens, sequences)
    assert num_bytes <= found <= 1.1 * num_bytes


def test_fa3_needs_no_room_for_partial_results() -> None:
    workspace = Workspace(kernel="fa3", num_sms=132)
    assert workspace.eager_float_bytes(QWEN) == workspace.graph_float_bytes(QWEN, 51_200, 100) < 1024


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        (replace(PLAIN, head_dim=32), "heads of 64, 128 and 256, not 32"),
        (replace(PLAIN, window=8), "to the left only"),
        (replace(PLAIN, has_position_bias=True), "no bias by position: set attention='sdpa'"),
    ],
)
def test_shapes_that_it_cannot_compute_are_refused_when_it_is_made(shape: AttentionShape, match: str) -> None:
    with pytest.raises(UnsupportedModel, match=match):
        Device().flashinfer(PLAIN, shape)


def test_float32_is_refused_with_what_to_set() -> None:
    with pytest.raises(UnsupportedModel, match="set dtype='bfloat16'"):
        Device().flashinfer(PLAIN, dtype=torch.float32)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(UnsupportedModel, match="pip install"):
        import_wrapper()
