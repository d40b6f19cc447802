import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import RaggedBatch, pack
from headrace_engine.buckets import Buckets, GraphKey
from headrace_engine.graphs import GraphConfig, GraphCounters, Graphs
from headrace_engine.pooling import Pooling
from hypothesis import given, settings
from hypothesis import strategies as st

from .recording import MAX_LENGTH, NAN_TOKEN, VOCAB_SIZE, Clock, CpuGraphs, Recording, TinyModel, batch_of, packed_rows
from .vectors import random_ids

BUCKETS = Buckets(max_tokens=1024, max_length=MAX_LENGTH, buckets_max_seqlen=False)
AT_ONCE = GraphConfig(defer_s=0)
SMALL, MEDIUM, LARGE = (GraphKey(tokens, 1, MAX_LENGTH) for tokens in (64, 128, 192))


def runs_in(counters: GraphCounters) -> int:
    """Each run is one of these."""
    eager = counters.eager_too_large + counters.eager_first + counters.eager_deferred + counters.eager_failed
    return eager + counters.replays


def graphs_with(backend: Recording, clock: Clock | None = None, **config: Any) -> Graphs:
    return Graphs(backend, BUCKETS, GraphConfig(**config), clock or Clock())


def hit(graphs: Graphs, *keys: GraphKey) -> None:
    """Run a batch that fits each key exactly."""
    for key in keys:
        assert graphs.run(batch_of(key.num_tokens)).shape == (1, 1)


# When a key is captured


def test_the_first_hit_is_eager_the_second_is_captured_and_all_later_ones_are_replayed() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0)
    hit(graphs, SMALL, SMALL, SMALL)
    assert backend.log == [("eager", None), ("capture", SMALL), ("replay", SMALL), ("replay", SMALL)]
    assert graphs.counters == GraphCounters(eager_first=1, captures=1, replays=2)
    assert (graphs.num_graphs, graphs.num_bytes) == (1, 10)


def test_each_key_has_a_first_hit_of_its_own() -> None:
    backend = Recording()
    hit(graphs_with(backend, defer_s=0), SMALL, MEDIUM, LARGE)
    assert backend.log == [("eager", None)] * 3


def test_batches_that_differ_but_fit_one_bucket_share_its_graph() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0)
    for lengths in ([10, 20], [1, 1, 40], [60]):
        assert graphs.run(batch_of(*lengths)).shape == (len(lengths), 1)
    assert backend.keys("capture") == [GraphKey(64, 4, MAX_LENGTH)]
    assert graphs.counters.replays == 1


def test_a_batch_above_the_largest_bucket_runs_eagerly_every_time() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0)
    for _ in range(3):
        assert graphs.run(batch_of(512, 512, 1)).shape == (3, 1)
    assert graphs.counters == GraphCounters(eager_too_large=3)


def test_a_key_hit_twice_waits_for_an_idle_moment() -> None:
    backend = Recording()
    graphs = graphs_with(backend)
    hit(graphs, SMALL, SMALL, SMALL)
    assert backend.log == [("eager", None)] * 3
    assert graphs.num_waiting == 1
    assert not graphs.rest()
    assert graphs.num_waiting == 0
    hit(graphs, SMALL)
    assert backend.log[3:] == [("capture", SMALL), ("replay", SMALL)]
    assert graphs.counters == GraphCounters(eager_first=1, eager_deferred=2, captures=1, replays=1)


def test_a_key_that_has_waited_too_long_is_captured_at_its_next_hit() -> None:
    backend, clock = Recording(), Clock()
    graphs = graphs_with(backend, clock, defer_s=2)
    hit(graphs, SMALL)
    clock.now_s += 100  # the wait begins with the second hit
    hit(graphs, SMALL)
    clock.now_s += 1.9
    hit(graphs, SMALL)
    assert not backend.keys("capture")
    clock.now_s += 0.1
    hit(graphs, SMALL)
    assert backend.log[3:] == [("capture", SMALL), ("replay", SMALL)]
    assert not graphs.rest()


def test_nothing_is_captured_late_without_a_hit() -> None:
    backend, clock = Recording(), Clock()
    graphs = graphs_with(backend, clock)
    hit(graphs, SMALL, SMALL)
    clock.now_s += 100
    hit(graphs, MEDIUM)
    assert not backend.keys("capture")


def test_an_idle_moment_captures_one_key_the_most_hit_first_and_of_equals_the_oldest() -> None:
    backend = Recording()
    graphs = graphs_with(backend)
    hit(graphs, LARGE, SMALL, SMALL, LARGE, MEDIUM, MEDIUM, MEDIUM)
    assert [graphs.rest(), graphs.rest(), graphs.rest(), graphs.rest()] == [True, True, False, False]
    assert backend.keys("capture") == [MEDIUM, SMALL, LARGE]


def test_an_idle_moment_before_any_second_hit_does_nothing() -> None:
    backend = Recording()
    graphs = graphs_with(backend)
    hit(graphs, SMALL)
    assert not graphs.rest()
    assert backend.log == [("eager", None)]


def test_warming_up_captures_the_largest_first_and_each_once() -> None:
    backend = Recording()
    graphs = graphs_with(backend)
    graphs.warm_up([SMALL, LARGE, SMALL])
    graphs.warm_up([MEDIUM, LARGE])
    hit(graphs, SMALL, LARGE)
    assert backend.log == [
        (("capture"), LARGE),
        ("capture", SMALL),
        ("capture", MEDIUM),
        ("replay", SMALL),
        ("replay", LARGE),
    ]


# When a capture fails


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in an idle moment"])
def test_a_key_whose_capture_fails_runs_eagerly_for_good_and_is_said_once(
    caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    backend = Recording(failing={SMALL})
    graphs = graphs_with(backend, defer_s=60 if late else 0)
    with caplog.at_level(logging.WARNING):
        hit(graphs, SMALL, SMALL)
        assert not graphs.rest()
        hit(graphs, SMALL, SMALL)
        graphs.warm_up([SMALL])
    assert backend.keys("capture") == [SMALL]
    assert len(backend.keys("eager")) == 4
    [record] = caplog.records
    assert "num_tokens=64" in record.getMessage()
    assert "not permitted" in record.getMessage()
    assert (graphs.counters.failed_captures, graphs.counters.captures) == (1, 0)
    assert graphs.counters.eager_failed == (2 if late else 3)
    assert graphs.num_graphs == 0


def test_other_keys_are_captured_after_a_failure() -> None:
    backend = Recording(failing={SMALL})
    graphs = graphs_with(backend, defer_s=0)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM, SMALL)
    assert backend.keys("replay") == [MEDIUM]


def test_after_too_many_failures_nothing_more_is_captured() -> None:
    backend = Recording(failing={SMALL, MEDIUM})
    graphs = graphs_with(backend, defer_s=0, max_keys=2)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM, LARGE, LARGE)
    assert backend.keys("capture") == [SMALL, MEDIUM]
    assert graphs.counters.eager_failed == 4


def test_after_a_capture_without_memory_nothing_is_captured_for_a_while_and_then_it_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend, clock = Recording(has_memory=False), Clock()
    graphs = graphs_with(backend, clock, defer_s=0, pause_s=60)
    hit(graphs, SMALL, SMALL, SMALL, SMALL, MEDIUM, MEDIUM)
    assert backend.keys("capture") == [SMALL]
    assert (graphs.num_waiting, graphs.rest()) == (0, False), "an idle moment would not help"
    assert [record.getMessage() for record in caplog.records] == [
        f"no graph is captured for 60 s: {SMALL} found no memory: OutOfMemoryError('CUDA out of memory')"
    ]
    backend.has_memory = True
    clock.now_s += 60
    assert graphs.num_waiting == 2
    hit(graphs, MEDIUM, SMALL)
    assert backend.keys("replay") == [MEDIUM, SMALL]
    assert runs_in(graphs.counters) == 8


def test_an_error_of_the_model_is_the_callers() -> None:
    class Broken(Recording):
        def eager(self, batch: RaggedBatch) -> torch.Tensor:
            message = f"device lost in a batch of {batch.num_tokens}"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="device lost"):
        graphs_with(Broken()).run(batch_of(3))


# How many graphs there are


def test_the_graph_replayed_least_recently_is_released_when_there_are_too_many() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0, max_graphs=2)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM, SMALL, LARGE, LARGE)
    assert backend.keys("release") == [MEDIUM]
    assert (graphs.num_graphs, graphs.counters.evictions) == (2, 1)


def test_graphs_are_released_until_their_bytes_fit() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0, max_bytes=25)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM)
    backend.num_bytes = 20
    hit(graphs, LARGE, LARGE)
    assert backend.keys("release") == [SMALL, MEDIUM]
    assert (graphs.num_graphs, graphs.num_bytes, graphs.counters.evictions) == (1, 20, 2)


def test_a_graph_above_the_cap_alone_is_released_and_its_key_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    backend = Recording(num_bytes=15)
    graphs = graphs_with(backend, defer_s=0, max_bytes=15)
    hit(graphs, SMALL, SMALL)
    backend.num_bytes = 16
    with caplog.at_level(logging.WARNING):
        hit(graphs, LARGE, LARGE, LARGE)
    [record] = caplog.records
    assert "16 bytes are more than max_bytes=15" in record.getMessage()
    assert backend.keys("release") == [LARGE]
    assert (graphs.num_graphs, graphs.num_bytes) == (1, 15)
    assert (graphs.counters.failed_captures, graphs.counters.eager_failed, graphs.counters.evictions) == (1, 2, 0)


def test_an_evicted_key_needs_two_hits_again() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0, max_graphs=1)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM)
    backend.log.clear()
    hit(graphs, SMALL, SMALL)
    assert backend.log == [("eager", None), ("capture", SMALL), ("release", MEDIUM), ("replay", SMALL)]


def test_random_shapes_do_not_make_the_books_grow() -> None:
    backend = Recording()
    graphs = graphs_with(backend, max_keys=5)
    for count in range(1, 17):
        batch = batch_of(*[64] * count)
        graphs.run(batch)
        graphs.run(batch)
    assert len(graphs._hits) == len(graphs._waiting) == 5
    while graphs.rest():
        pass
    assert len(backend.keys("capture")) == 5
    assert not graphs._hits


def test_the_key_hit_least_recently_is_forgotten_first() -> None:
    backend = Recording()
    graphs = graphs_with(backend, max_keys=2)
    hit(graphs, SMALL, MEDIUM, SMALL, LARGE, SMALL)
    assert graphs.counters.eager_deferred == 2
    hit(graphs, MEDIUM)
    assert graphs.counters.eager_first == 4


def test_a_forgotten_key_is_counted_anew() -> None:
    backend = Recording()
    graphs = graphs_with(backend, defer_s=0, max_keys=1)
    hit(graphs, SMALL, MEDIUM, SMALL, MEDIUM)
    assert graphs.counters.eager_first == 4
    hit(graphs, MEDIUM)
    assert backend.keys("capture") == [MEDIUM]


def test_release_gives_up_all_graphs_and_lets_failed_keys_try_again() -> None:
    backend = Recording(failing={SMALL})
    graphs = graphs_with(backend, defer_s=0)
    hit(graphs, SMALL, SMALL, MEDIUM, MEDIUM)
    graphs.release()
    assert backend.keys("release") == [MEDIUM]
    assert (graphs.num_graphs, graphs.num_bytes, graphs.counters.evictions) == (0, 0, 0)
    backend.failing.clear()
    backend.log.clear()
    hit(graphs, SMALL, SMALL)
    assert backend.log == [("eager", None), ("capture", SMALL), ("replay", SMALL)]


@given(
    steps=st.lists(st.tuples(st.sampled_from([SMALL, MEDIUM, LARGE, None]), st.integers(5, 25)), max_size=60),
    failing=st.sets(st.sampled_from([SMALL, MEDIUM, LARGE])),
    defer_s=st.sampled_from([0, 3, 1000]),
    max_keys=st.integers(1, 3),
)
def test_books_and_caps_hold_through_any_history(
    steps: list[tuple[GraphKey | None, int]], failing: set[GraphKey], defer_s: float, max_keys: int
) -> None:
    backend, clock = Recording(failing=failing), Clock()
    graphs = graphs_with(backend, clock, max_bytes=30, max_graphs=2, defer_s=defer_s, max_keys=max_keys)
    runs = 0
    for key, num_bytes in steps:
        backend.num_bytes = num_bytes
        clock.now_s += 1
        if key is None:
            graphs.rest()
        else:
            hit(graphs, key)
            runs += 1
        assert graphs.num_bytes <= 30
        assert graphs.num_graphs <= 2
        assert graphs._waiting.keys() <= graphs._hits.keys()
        assert not graphs._hits.keys() & (graphs._graphs.keys() | graphs._failed)
        assert graphs.num_bytes == sum(graph.num_bytes for graph in graphs._graphs.values())
    counters = graphs.counters
    assert runs_in(counters) == runs
    assert counters.captures + counters.failed_captures == len(backend.keys("capture"))
    assert counters.captures - counters.evictions == graphs.num_graphs
    graphs.release()
    assert len(backend.keys("release")) == counters.captures
    assert all(backend.keys("capture").count(key) <= 1 for key in failing)


@pytest.mark.parametrize(
    ("field", "value"), [("max_bytes", -1), ("max_graphs", 0), ("defer_s", -0.1), ("pause_s", -1), ("max_keys", 0)]
)
def test_fields_that_make_no_sense_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field}={value}"):
        GraphConfig(**{field: value})


# What a replay gives


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4, equal_nan=True)


poolings = st.sampled_from(["cls", "mean", "last_token"])
shapes = st.lists(st.integers(1, 70), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(shapes, min_size=1, max_size=8), pooling=poolings, bakes=st.booleans(), seed=st.integers(0, 99))
def test_rows_are_those_of_each_sequence_alone_whatever_ran_before(
    batches: list[list[int]], pooling: Pooling, bakes: bool, seed: int
) -> None:
    model = TinyModel(pooling)
    buckets = Buckets(max_tokens=512, max_length=MAX_LENGTH, buckets_max_seqlen=bakes)
    graphs = Graphs(CpuGraphs(model), buckets, AT_ONCE)
    for turn in range(3):  # eager, captured, replayed; each turn with other tokens
        for index, lengths in enumerate(batches):
            batch = batch_of(*lengths, seed=seed + turn + index)
            rows = graphs.run(batch)
            assert rows.shape == (len(lengths), model.width)
            close(rows, packed_rows(model, batch))
    assert runs_in(graphs.counters) == 3 * len(batches)
    assert graphs.counters.failed_captures == 0


def test_a_large_batch_leaves_nothing_behind_for_a_small_one_in_the_same_bucket() -> None:
    model = TinyModel("mean")
    graphs = Graphs(CpuGraphs(model), BUCKETS, AT_ONCE)
    small, large = batch_of(2, 3, 5, 6, 9), pack([np.full(9, NAN_TOKEN, np.uint32)] * 7)
    assert BUCKETS.key(small) == BUCKETS.key(large)
    graphs.run(small)
    assert graphs.run(large).isnan().all()
    close(graphs.run(small), packed_rows(model, small))
    assert graphs.counters.replays == 2


def test_segments_reach_a_replay_and_do_not_stay() -> None:
    model = TinyModel("mean")
    graphs = Graphs(CpuGraphs(model), BUCKETS, AT_ONCE)
    plain = batch_of(9, 20)
    paired = pack(
        [random_ids(0, 9, VOCAB_SIZE), random_ids(1, 20, VOCAB_SIZE)], [np.ones(n, np.uint8) for n in (9, 20)]
    )
    eager = {"plain": model(plain), "paired": model(paired)}
    assert not eager["plain"].allclose(eager["paired"])
    for _ in range(3):
        close(graphs.run(paired), eager["paired"])
        close(graphs.run(plain), eager["plain"])
    assert graphs.counters.replays == 5


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(shapes, min_size=1, max_size=6), pooling=poolings, bakes=st.booleans(), data=st.data())
def test_batches_that_skip_and_that_do_not_share_graphs_and_give_their_own_rows(
    batches: list[list[int]], pooling: Pooling, bakes: bool, data: st.DataObject
) -> None:
    model = TinyModel(pooling)
    buckets = Buckets(max_tokens=512, max_length=MAX_LENGTH, buckets_max_seqlen=bakes)
    graphs = Graphs(CpuGraphs(model), buckets, AT_ONCE)
    for turn in range(3):  # eager, captured, replayed; each turn with other skips
        for lengths in batches:
            drawn = data.draw(st.none() | st.tuples(*[st.integers(0, length - 1) for length in lengths]))
            batch = pack([random_ids(turn + index, n, VOCAB_SIZE) for index, n in enumerate(lengths)], skips=drawn)
            close(graphs.run(batch), packed_rows(model, batch))
    assert graphs.counters.failed_captures == 0


@pytest.mark.parametrize("pooling", ["cls", "mean", "last_token"])
def test_a_sequence_that_is_not_a_number_spoils_its_own_row_only(pooling: Pooling) -> None:
    model = TinyModel(pooling)
    graphs = Graphs(CpuGraphs(model), BUCKETS, AT_ONCE)
    batch = pack([random_ids(0, 9, VOCAB_SIZE), np.full(10, NAN_TOKEN, np.uint32), random_ids(1, 11, VOCAB_SIZE)])
    for _ in range(3):
        rows = graphs.run(batch)
        assert rows.isnan().any(dim=1).tolist() == [False, True, False]
        close(rows, packed_rows(model, batch))
    assert graphs.counters.replays == 2


def test_a_result_is_written_over_by_the_next_replay() -> None:
    graphs = Graphs(CpuGraphs(TinyModel("mean")), BUCKETS, AT_ONCE)
    graphs.run(batch_of(9))
    first = graphs.run(batch_of(9))
    kept = first.clone()
    graphs.run(batch_of(9, seed=1))
    assert not first.equal(kept)


def test_threads_that_meet_on_one_key_share_one_capture_and_all_get_their_rows() -> None:
    model = TinyModel("mean")
    backend = CpuGraphs(model, shares_output=False)  # threads here read a result while others run
    graphs = Graphs(backend, BUCKETS, AT_ONCE)

    def work(seed: int) -> None:
        for turn in range(20):
            batch = batch_of(5, 9, 13, seed=100 * seed + turn)
            close(graphs.run(batch), packed_rows(model, batch))
            graphs.rest()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert backend.captured == [GraphKey(64, 4, MAX_LENGTH)]
    assert graphs.counters == GraphCounters(eager_first=1, captures=1, replays=159)
