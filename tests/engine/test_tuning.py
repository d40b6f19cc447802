"""What follows from times: rankings, rows of the attention table, and the token count for graphs. No device."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest
import torch
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import PUBLISHED, Case, DeviceFacts, choose
from headrace_engine.buckets import Buckets
from headrace_engine.tuning.ladder import RUNGS, Rung, compositions, largest_paying, while_it_pays
from headrace_engine.tuning.mix import Batch, full, mix, packed
from headrace_engine.tuning.ranking import rank, rows
from headrace_engine.tuning.stopwatch import medians_ms
from hypothesis import given
from hypothesis import strategies as st

from .recording import Clock

HOPPER = DeviceFacts(kind="cuda", name="a GPU", capability=(9, 0))
CASE = Case(
    device=HOPPER,
    shapes=(AttentionShape(num_heads=16, num_kv_heads=8, head_dim=128),),
    dtype=torch.bfloat16,
    max_length=512,
)
BACKENDS = tuple(OBSTACLES)
DAY = date(2026, 11, 29)
BATCHES = (Batch(0, (32,)), Batch(128, (128,) * 4), Batch(512, (512,) * 2))
milliseconds = st.floats(0.01, 1000)


# Which batches stand for use


@given(max_length=st.integers(2, 200_000))
def test_a_mix_is_a_query_and_full_batches_of_ever_longer_texts(max_length: int) -> None:
    query, *others = mix(max_length)
    assert len(query.lengths) == 1
    assert query.limit == 0
    assert others[-1].limit == max_length
    assert all(one.limit < next_one.limit for one, next_one in pairwise(others))
    assert all(max(one.lengths) < max(next_one.lengths) for one, next_one in pairwise(others))
    for batch in others:
        assert max(batch.lengths) <= batch.limit
        assert 8_192 < sum(batch.lengths) <= 16_384


@given(longest=st.integers(1, 16_384))
def test_the_texts_of_a_full_batch_are_of_half_the_length_to_all_of_it(longest: int) -> None:
    lengths = full(longest)
    assert max(lengths) == longest
    assert min(lengths) > longest // 2


def test_a_batch_is_named_by_its_sequences_and_their_tokens() -> None:
    assert [str(Batch(0, lengths)) for lengths in ((512,) * 5, (257, 512))] == ["5 × 512", "2 × 257…512"]


def test_packed_batches_hold_the_same_ids_each_time_within_the_vocabulary() -> None:
    batch = packed((3, 5, 2), 7)
    assert (batch.num_sequences, batch.num_tokens, batch.max_seqlen) == (3, 10, 5)
    assert batch.token_ids.max() < 7
    assert batch.token_ids.equal(packed((3, 5, 2), 7).token_ids)


# The order of backends


@given(scores=st.dictionaries(st.sampled_from(BACKENDS), milliseconds), preference=st.permutations(BACKENDS))
def test_none_is_ranked_before_one_that_is_faster_by_more_than_noise(
    scores: dict[str, float], preference: list[str]
) -> None:
    order = rank(scores, preference)
    assert sorted(order) == sorted(scores)
    for place, first in enumerate(order):
        assert all(scores[first] <= 1.03 * scores[later] for later in order[place:])


@given(preference=st.permutations(BACKENDS))
def test_within_noise_the_order_is_the_one_preferred(preference: list[str]) -> None:
    assert rank(dict.fromkeys(BACKENDS, 5.0), preference) == tuple(preference)
    assert rank({"fa2": 5.0, "fa3": 5.1, "varlen": 5.3}, ("varlen", "fa3", "fa2")) == ("fa3", "fa2", "varlen")


def test_one_order_for_all_lengths_is_one_row_for_this_device_and_head_width_alone() -> None:
    [row] = rows(CASE, BATCHES, {"varlen": [1, 4, 16], "fa3": [1, 2, 4]}, DAY)
    assert (row.order, row.max_length) == (("fa3", "varlen"), 512)
    assert row.fits((9, 0), CASE)
    for capability, case in (
        ((9, 1), CASE),
        ((8, 9), CASE),
        ((9, 0), replace(CASE, max_length=513)),
        ((9, 0), replace(CASE, shapes=(replace(CASE.shapes[0], head_dim=64),))),
    ):
        assert not row.fits(capability, case)


def test_where_the_order_changes_with_the_limit_there_is_a_row_for_each() -> None:
    short, long = rows(CASE, BATCHES, {"fa4": [1, 1, 90], "fa3": [2, 2, 2]}, DAY)
    assert (short.max_length, short.order) == (128, ("fa4", "fa3"))
    assert (long.max_length, long.order) == (512, ("fa3", "fa4"))
    for limit, backend in ((100, "fa4"), (128, "fa4"), (129, "fa3"), (512, "fa3")):
        assert choose(replace(CASE, max_length=limit), {}, table=(short, long)).backend == backend


def test_a_long_batch_counts_by_how_much_slower_it_is_and_not_by_how_long_it_takes() -> None:
    [row] = rows(CASE, BATCHES, {"fa3": [1, 10, 1000], "fa2": [2, 20, 900]}, DAY)
    assert row.order == ("fa3", "fa2")


def test_a_row_says_what_was_measured_where_and_when() -> None:
    [row] = rows(CASE, BATCHES, {"varlen": [1, 10, 100], "fa3": [0.5, 5, 50]}, DAY)
    assert row.source == (
        "measured on a GPU, 2026-11-29: fa3 5 ms, varlen 10 ms, the geometric mean over 1 × 32, 4 × 128, 2 × 512 tokens"
    )
    choice = choose(CASE, {}, table=(row, *PUBLISHED))
    assert (choice.backend, choice.reason) == ("fa3", row.source)
    others = choose(replace(CASE, max_length=4096), {}, table=(row, *PUBLISHED))
    assert others.reason in {published.source for published in PUBLISHED}


def test_ties_keep_the_published_order_of_the_limit() -> None:
    case, limits = replace(CASE, max_length=32_768), (Batch(512, (512,)), Batch(32_768, (16_384,)))
    short, long = rows(case, limits, {"fa3": [5, 50], "fa4": [5, 50]}, DAY)
    assert (short.order, long.order) == (("fa4", "fa3"), ("fa3", "fa4"))


def test_without_a_time_there_is_no_row() -> None:
    assert rows(CASE, BATCHES, {}, DAY) == ()


@given(
    times=st.dictionaries(
        st.sampled_from(BACKENDS), st.lists(milliseconds, min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_every_backend_that_ran_is_in_every_row_and_limits_rise_to_the_models(times: dict[str, list[float]]) -> None:
    found = rows(CASE, BATCHES, times, DAY)
    assert found[-1].max_length == 512
    assert all(set(row.order) == times.keys() for row in found)
    assert all(row.max_length < after.max_length and row.order != after.order for row, after in pairwise(found))


# Up to where graphs pay


def climb(*shares: float) -> tuple[Rung, ...]:
    """Rungs at which a replay takes these shares of an eager step."""
    return tuple(Rung(tokens, 10.0, 10.0 * share) for tokens, share in zip(RUNGS, shares, strict=False))


@pytest.mark.parametrize(
    ("shares", "limit"),
    [
        ((0.2, 0.5, 0.9, 0.99, 1.1), 256),
        ((0.2, 0.5, 1.0, 0.9, 1.0, 1.0), 512),
        ((1.0, 1.2), 0),
        ((0.2, 0.9), 128),
        ((), None),
    ],
)
def test_the_largest_number_of_tokens_that_pays_is_the_limit(shares: tuple[float, ...], limit: int | None) -> None:
    assert largest_paying(climb(*shares)) == limit


@given(pays=st.lists(st.booleans(), max_size=len(RUNGS)))
def test_after_two_rungs_in_a_row_that_do_not_pay_no_further_one_is_measured(pays: list[bool]) -> None:
    asked: list[Rung] = []

    def measuring() -> Iterator[Rung]:
        for rung in climb(*(0.5 if each else 1.0 for each in pays)):
            asked.append(rung)
            yield rung

    taken = list(while_it_pays(measuring()))
    assert taken == asked
    misses = [not rung.pays for rung in taken]
    assert not any(first and second for first, second in pairwise(misses[:-1]))
    assert len(taken) == len(pays) or misses[-2:] == [True, True]


def test_a_gain_below_three_percent_does_not_pay() -> None:
    assert Rung(64, 10.0, 9.6).pays
    assert not Rung(64, 10.0, 9.8).pays


@pytest.mark.parametrize("max_length", [2, 80, 512, 32_768])
@pytest.mark.parametrize("tokens", RUNGS)
@pytest.mark.parametrize("bakes", [True, False])
def test_compositions_fill_their_rung_but_for_half_a_step_of_padding(max_length: int, tokens: int, bakes: bool) -> None:
    buckets = Buckets(max_tokens=2 * RUNGS[-1], max_length=max_length, buckets_max_seqlen=bakes)
    found = compositions(tokens, buckets)
    assert len(set(found)) == len(found) <= 3
    for lengths in found:
        key = buckets.key(packed(lengths, 7))
        assert key is not None
        assert tokens <= key.num_tokens <= 2 * tokens
        padding = tokens - sum(lengths)
        assert padding == (32 if tokens <= 1024 else 128)


# Medians of things that take turns


def test_each_thing_is_warmed_up_and_timed_in_turn_there_and_back() -> None:
    clock, log = Clock(), []

    def taking(name: str, ms: float) -> None:
        log.append(name)
        clock.now_s += ms / 1000

    times = medians_ms([lambda: taking("a", 2), lambda: taking("b", 5)], clock)
    assert times == pytest.approx([2, 5])
    assert log[:10] == [*"aaabbb", *"abba"]
    assert log.count("a") == log.count("b") == 18


def test_a_slow_first_run_and_a_rare_hitch_do_not_count() -> None:
    clock, durations = Clock(), [9.0, 9.0, 9.0, *[0.002] * 10, 5.0, *[0.002] * 10]

    def run() -> None:
        clock.now_s += durations.pop(0)

    assert medians_ms([run], clock) == pytest.approx([2])


def test_what_takes_seconds_is_timed_three_times() -> None:
    clock = Clock()

    def run() -> None:
        clock.now_s += 30
        run_at.append(clock.now_s)

    run_at: list[float] = []
    assert medians_ms([run], clock) == pytest.approx([30_000])
    assert len(run_at) == 6
