"""Attention of the compiled kernels: that of the definition, bit for bit the same in any batch, at every level.

It knows what `Kernels.attend` promises. It does not know how tasks, blocks and tiles are cut, only sizes to either side
of them.
"""

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import pack
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.reference import Inputs, attend_by_definition
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.native.calls import Kernels
from hypothesis import given, settings
from hypothesis import strategies as st

from .native_kernels import error, threads
from .native_sources import needs_compiler
from .vectors import random_ids

Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

pytestmark = needs_compiler

SHAPE = AttentionShape(num_heads=4, num_kv_heads=2, head_dim=64)
WIDTHS = (32, 64, 96, 128, 256)
WINDOWS = (None, 0, 1, 3, 64, 700)
LENGTHS = (1, 33, 2, 300, 3, 8, 64, 31, 257)
LARGEST_ERROR = {torch.float32: 2e-6, torch.bfloat16: 0.005}
DTYPES = tuple(LARGEST_ERROR)
# Where a weight is 1, it is divided by itself: what is left is a rounding.
LAST_BITS = {torch.float32: 3e-7, torch.bfloat16: 0.0}
# Enough work for other threads to be asked, with more keys and rows than a task takes at once.
SHARED = (1, 300, 40, 9, 600, 2, 520)


def offsets(lengths: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths], dtype=np.int32)


def draw(num_tokens: int, shape: AttentionShape = SHAPE, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Rows:
    """Views of one projection, of numbers that bfloat16 has."""
    heads = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
    rows = torch.randn(num_tokens, sum(heads), shape.head_dim, generator=torch.Generator().manual_seed(seed))
    query, key, value = rows.bfloat16().to(dtype).split(heads, 1)
    return query, key, value


def attend(kernels: Kernels, rows: Rows, lengths: Sequence[int], shape: AttentionShape = SHAPE) -> torch.Tensor:
    cu_seqlens = torch.from_numpy(offsets(lengths))
    attended = kernels.attend(*rows, cu_seqlens, scale=shape.softmax_scale, causal=shape.causal, window=shape.window)
    assert attended.shape == rows[0].shape
    assert attended.dtype == rows[0].dtype
    assert attended.is_contiguous()
    return attended


def worst_error(found: torch.Tensor, expected: torch.Tensor, lengths: Sequence[int]) -> float:
    """The error of the worst sequence, so that no long one hides a short one."""
    return max(itertools.starmap(error, zip(found.double().split(lengths), expected.split(lengths), strict=True)))


@cache
def expected_of(shape: AttentionShape, lengths: tuple[int, ...]) -> torch.Tensor:
    return attend_by_definition(*draw(sum(lengths), shape), offsets(lengths), shape)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("head_dim", WIDTHS)
def test_tokens_attend_to_what_they_see_of_their_own_sequence(
    kernels: Kernels, head_dim: int, causal: bool, window: int | None
) -> None:
    shape = AttentionShape(num_heads=2, num_kv_heads=1, head_dim=head_dim, causal=causal, window=window)
    lengths = (*LENGTHS, 710) if window == 700 else LENGTHS
    for dtype in DTYPES:
        found = attend(kernels, draw(sum(lengths), shape, dtype), lengths, shape)
        assert worst_error(found, expected_of(shape, lengths), lengths) <= LARGEST_ERROR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(1, 1), (5, 5), (6, 3), (6, 2), (16, 2), (32, 1), (14, 2)])
def test_heads_of_queries_share_heads_of_keys(
    kernels: Kernels, num_heads: int, num_kv_heads: int, dtype: torch.dtype
) -> None:
    shape = AttentionShape(num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=32, causal=True)
    lengths = (70, 1, 300)
    found = attend(kernels, draw(371, shape, dtype), lengths, shape)
    assert worst_error(found, expected_of(shape, lengths), lengths) <= LARGEST_ERROR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (False, 64), (True, 700)])
@pytest.mark.parametrize("length", [4099, 8192])
def test_a_long_sequence_is_attended_to_as_a_short_one(
    kernels: Kernels, length: int, causal: bool, window: int | None, dtype: torch.dtype
) -> None:
    shape = AttentionShape(num_heads=1, num_kv_heads=1, head_dim=64, causal=causal, window=window)
    rows = draw(length, shape, dtype)
    some = torch.cat([torch.arange(0, length, 97), torch.arange(length - 9, length)])
    found = attend(kernels, rows, (length,), shape)[some]
    assert error(found, some_by_definition(rows, some, shape)) <= LARGEST_ERROR[dtype]


def some_by_definition(rows: Rows, some: torch.Tensor, shape: AttentionShape) -> torch.Tensor:
    """The definition for some tokens of one sequence: all of a long one take more memory than a test should."""
    query, key, value = (each[:, 0].double() for each in rows)
    ahead = torch.arange(len(key)) - some[:, None]
    seen = ahead.abs() <= (len(key) if shape.window is None else shape.window)
    if shape.causal:
        seen &= ahead <= 0
    scores = (query[some] @ key.T * shape.softmax_scale).masked_fill(~seen, -torch.inf)
    return (torch.softmax(scores, -1) @ value)[:, None]


@st.composite
def shapes(draw: st.DrawFn) -> AttentionShape:
    num_kv_heads, head_dim = draw(st.integers(1, 4)), draw(st.sampled_from(WIDTHS))
    return AttentionShape(
        num_heads=num_kv_heads * draw(st.integers(1, 5)),
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        causal=draw(st.booleans()),
        window=draw(st.none() | st.integers(0, 40) | st.integers(0, 600)),
        scale=draw(st.none() | st.floats(0.1, 2).map(lambda factor: factor * head_dim**-0.5)),
    )


@settings(max_examples=25, deadline=None)
@given(
    shape=shapes(),
    lengths=st.lists(st.integers(1, 40) | st.integers(1, 600), min_size=1, max_size=5),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_any_batch_of_any_shape_is_as_the_definition_and_torch_have_it(
    kernels: Kernels, shape: AttentionShape, lengths: list[int], dtype: torch.dtype, seed: int
) -> None:
    batch = pack([random_ids(0, length, 9) for length in lengths])
    inputs = Inputs.draw(batch, shape, dtype, seed)
    rows = inputs.query, inputs.key, inputs.value
    found = attend(kernels, rows, sorted(lengths), shape).double()
    # Scores of up to twice the usual size are known that much less exactly.
    largest = LARGEST_ERROR[dtype] * 2
    assert worst_error(found, attend_by_definition(*rows, batch.host_cu_seqlens, shape), sorted(lengths)) <= largest
    assert error(found, SdpaBackend().plan(batch).run(*rows, shape).double()) <= 2 * largest


def of_one_projection(rows: Rows) -> Rows:
    query, key, value = torch.cat(rows, 1).split([each.shape[1] for each in rows], 1)
    return query, key, value


def unbound(rows: Rows) -> Rows:
    query, key, value = torch.stack(rows, 1).unbind(1)
    return query, key, value


def with_a_gap(rows: Rows) -> Rows:
    """Each with what is no number between its tokens, another number of them for each, and off any border."""
    apart = []
    for gap, each in enumerate(rows, 1):
        flat = each.flatten(1)
        wide = torch.full((len(flat), flat.shape[1] + 2 * gap + 1), torch.nan, dtype=flat.dtype)
        wide[:, gap : -gap - 1] = flat
        apart.append(wide[:, gap : -gap - 1].unflatten(1, each.shape[1:]))
    query, key, value = apart
    return query, key, value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", [of_one_projection, unbound, with_a_gap])
def test_rows_are_read_where_a_layer_left_them(
    kernels: Kernels, view: Callable[[Rows], Rows], dtype: torch.dtype
) -> None:
    shape, lengths = replace(SHAPE, num_kv_heads=4), (5, 130, 41)
    query, key, value = (each.contiguous() for each in draw(176, shape, dtype))
    viewed = view((query, key, value))
    assert not any(each.is_contiguous() for each in viewed)
    assert torch.equal(attend(kernels, viewed, lengths, shape), attend(kernels, (query, key, value), lengths, shape))


def test_tokens_that_share_one_row_are_read_from_it(kernels: Kernels) -> None:
    query, key, value = draw(50)
    shared = key[:1].expand(50, -1, -1)
    assert torch.equal(
        attend(kernels, (query, shared, value), [50]), attend(kernels, (query, shared.clone(), value), [50])
    )


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_heads_that_do_not_lie_side_by_side_are_refused(kernels: Kernels, name: str) -> None:
    rows = dict(zip(("query", "key", "value"), draw(10, replace(SHAPE, num_kv_heads=4)), strict=True))
    unfit = {
        "heads apart": torch.zeros(10, 4, 128, dtype=torch.bfloat16)[:, :, :64],
        "heads before tokens": torch.zeros(4, 10, 64, dtype=torch.bfloat16).transpose(0, 1),
        "numbers apart": torch.zeros(10, 4, 128, dtype=torch.bfloat16)[:, :, ::2],
    }
    for each in unfit.values():
        query, key, value = (rows | {name: each}).values()
        with pytest.raises(ValueError, match=rf"^{name} has .* heads must lie side by side"):
            attend(kernels, (query, key, value), [10])


def test_keys_that_do_not_fit_the_queries_are_refused(kernels: Kernels) -> None:
    query, key, value = draw(10)
    unfit = (torch.zeros(10, 2, 32, dtype=torch.bfloat16), key[:9], key.float())
    for each in unfit:
        for rows in ((query, each, value), (query, key, each)):
            with pytest.raises(ValueError, match=r"^(key|value) is torch.* beside a query of torch.bfloat16"):
                attend(kernels, rows, [10])


@pytest.mark.parametrize(
    "rows",
    [
        draw(10, replace(SHAPE, num_heads=4, num_kv_heads=3)),
        draw(10, replace(SHAPE, head_dim=48)),
        (*draw(10)[:2], draw(10, replace(SHAPE, num_kv_heads=4))[2]),
    ],
)
def test_numbers_of_heads_that_do_not_fit_are_refused(kernels: Kernels, rows: Rows) -> None:
    with pytest.raises(ValueError, match="a multiple of them of queries, heads of multiples of 32"):
        attend(kernels, rows, [10])


def test_a_scale_that_is_not_above_0_and_other_lengths_are_refused(kernels: Kernels) -> None:
    rows = draw(10)
    for scale in (0.0, -1.0, torch.nan):
        with pytest.raises(ValueError, match="a scale above 0"):
            kernels.attend(*rows, torch.tensor([0, 10], dtype=torch.int32), scale=scale)
    with pytest.raises(ValueError, match=r"cu_seqlens is torch\.int64"):
        kernels.attend(*rows, torch.tensor([0, 10]), scale=1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [SHAPE, replace(SHAPE, causal=True), replace(SHAPE, window=64), replace(SHAPE, num_heads=12, num_kv_heads=1)],
    ids=["plain", "causal", "window", "one key head"],
)
def test_a_sequence_has_the_same_bits_alone_in_any_batch_and_with_any_threads(
    kernels: Kernels, shape: AttentionShape, dtype: torch.dtype
) -> None:
    rows = draw(sum(SHARED), shape, dtype)
    pieces = list(zip(*(each.split(SHARED) for each in rows), strict=True))
    with threads(1):
        alone = [attend(kernels, piece, [len(piece[0])], shape) for piece in pieces]
    backwards = [torch.cat(each) for each in zip(*reversed(pieces), strict=True)]
    for number in (1, 2, 3):
        with threads(number):
            assert torch.equal(attend(kernels, rows, SHARED, shape), torch.cat(alone))
            found = attend(kernels, (backwards[0], backwards[1], backwards[2]), SHARED[::-1], shape)
            assert torch.equal(found, torch.cat(alone[::-1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_no_other_sequence_is_read(kernels: Kernels, wrong: float, dtype: torch.dtype) -> None:
    for shape in (SHAPE, replace(SHAPE, causal=True), replace(SHAPE, window=8)):
        rows = draw(sum(LENGTHS), shape, dtype)
        clean = attend(kernels, rows, LENGTHS, shape).split(LENGTHS)
        for odd in (0, 1):
            spoilt = rows[0].clone(), rows[1].clone(), rows[2].clone()
            for each in spoilt:
                for sequence in each.split(LENGTHS)[odd::2]:
                    sequence.fill_(wrong)
            found = attend(kernels, spoilt, LENGTHS, shape).split(LENGTHS)
            assert all(map(torch.equal, found[1 - odd :: 2], clean[1 - odd :: 2]))
            assert not torch.cat(found[odd::2]).isfinite().any()


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("spoilt", [(0,), (1,), (2,), (0, 1, 2)], ids=["query", "key", "value", "token"])
def test_a_token_that_is_no_number_spoils_its_own_sequence_and_is_not_hidden(
    kernels: Kernels, spoilt: tuple[int, ...], wrong: float
) -> None:
    lengths = (33, 1, 300, 20)
    for dtype, shape in itertools.product(DTYPES, (SHAPE, replace(SHAPE, causal=True), replace(SHAPE, window=8))):
        clean = attend(kernels, draw(sum(lengths), shape, dtype), lengths, shape)
        # The first, the last and one between of a sequence, and a sequence of its own.
        for start, token, stop in ((0, 0, 33), (33, 33, 34), (34, 290, 334), (334, 353, 354)):
            rows = draw(sum(lengths), shape, dtype)
            for index in spoilt:
                rows[index][token] = wrong
            found = attend(kernels, rows, lengths, shape)
            assert not found[token].isfinite().any()
            assert torch.equal(found[:start], clean[:start])
            assert torch.equal(found[stop:], clean[stop:])


@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        *((index, torch.nan) for index in (0, 1, 2)),
        *itertools.product((0, 1, 2), (torch.inf, -torch.inf)),
    ],
)
def test_what_the_definition_has_no_number_for_is_no_number(kernels: Kernels, index: int, wrong: float) -> None:
    lengths = (1, 1, 1, 1, 2, 2, 2, 3, 3, 5, 40)
    for dtype, shape in itertools.product(DTYPES, (SHAPE, replace(SHAPE, causal=True), replace(SHAPE, window=1))):
        rows = draw(sum(lengths), shape, dtype)
        # One number of a head, so that scores are infinite with either sign.
        rows[index][:, 0, 0] = wrong
        expected = attend_by_definition(*rows, offsets(lengths), shape)
        found = attend(kernels, rows, lengths, shape)
        assert not found[~expected.isfinite()].isfinite().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [1e4, 3e4])
def test_the_one_key_with_by_far_the_largest_score_is_taken(
    kernels: Kernels, size: float, sign: int, dtype: torch.dtype
) -> None:
    shape = replace(SHAPE, num_heads=2, scale=1.0)
    query, key, value = (each.contiguous() for each in draw(700, shape, dtype))
    query.zero_()
    query[:, :, 0] = 100
    key.zero_()
    key[:, :, 0] = sign * size / 100 if sign < 0 else 0.0
    for winner in (0, 255, 699):
        chosen = key.clone()
        chosen[winner, :, 0] = sign * size / 100 if sign > 0 else 0.0
        found = attend(kernels, (query, chosen, value), [700], shape)
        assert torch.allclose(found, value[winner].expand(700, -1, -1), rtol=LAST_BITS[dtype], atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("score", [1e4, -1e4, 3e4, -3e4, 1e8, -1e8])
def test_keys_of_equal_scores_weigh_the_same_however_large(kernels: Kernels, score: float, dtype: torch.dtype) -> None:
    shape = replace(SHAPE, num_heads=2, scale=1.0)
    query, key, value = (each.contiguous() for each in draw(700, shape, dtype))
    query.zero_()
    query[:, :, 0] = 1
    key.zero_()
    key[:, :, 0] = score
    found = attend(kernels, (query, key, value), [700], shape)
    expected = value.double().mean(0).expand(700, -1, -1)
    assert error(found, expected) <= LARGEST_ERROR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_scores_of_ten_thousands_lose_no_more_than_their_last_bits(
    kernels: Kernels, scale: float, dtype: torch.dtype
) -> None:
    shape = replace(SHAPE, scale=scale, causal=True)
    lengths = (1, 40, 600)
    random = torch.Generator().manual_seed(3)
    # Whole numbers, so that every product and sum is exact: scores of some 8,000, that differ by little more than 1.
    query = torch.full((641, 4, 64), 8.0)
    key = torch.full((641, 2, 64), 16.0)
    key[:, :, 0] += torch.randint(0, 2, (641, 2), generator=random)
    value = draw(641, shape)[2].float()
    rows = query.to(dtype), key.to(dtype), value.to(dtype)
    found = attend(kernels, rows, lengths, shape)
    largest = torch.finfo(torch.float32).eps * 8200 * scale * 2
    expected = attend_by_definition(*rows, offsets(lengths), shape)
    assert worst_error(found, expected, lengths) <= largest + LARGEST_ERROR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_that_sees_only_itself_gets_its_own_value(kernels: Kernels, dtype: torch.dtype) -> None:
    for causal in (False, True):
        rows = draw(sum(LENGTHS), SHAPE, dtype)
        found = attend(kernels, rows, LENGTHS, replace(SHAPE, window=0, causal=causal))
        assert torch.allclose(found, rows[2].repeat_interleave(2, 1), rtol=LAST_BITS[dtype], atol=0)


def test_a_window_wider_than_any_sequence_hides_nothing(kernels: Kernels) -> None:
    rows = draw(sum(LENGTHS))
    whole = attend(kernels, rows, LENGTHS)
    for window in (299, 2**31, 2**62):
        assert torch.equal(attend(kernels, rows, LENGTHS, replace(SHAPE, window=window)), whole)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_empty_sequence_takes_no_part(kernels: Kernels, dtype: torch.dtype) -> None:
    rows = draw(40, SHAPE, dtype)
    expected = attend(kernels, rows, [3, 37])
    for lengths in ([0, 3, 37], [3, 0, 0, 37], [3, 37, 0]):
        assert torch.equal(attend(kernels, rows, lengths), expected)
    nothing = draw(0, SHAPE, dtype)
    assert attend(kernels, nothing, []).shape == (0, 4, 64)
    assert attend(kernels, nothing, [0, 0]).shape == (0, 4, 64)


def test_other_python_threads_run_while_it_computes(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw(2000)
    called, ran = threading.Event(), threading.Event()
    compiled = kernels._attend

    def call(*arguments: object) -> int:
        called.set()
        failed: int = compiled(*arguments)
        # Whoever waited for Python's lock had it in between, or gets it only now.
        seen.append(ran.is_set())
        return failed

    def other() -> None:
        called.wait()
        ran.set()

    seen: list[bool] = []
    monkeypatch.setattr(kernels, "_attend", call)
    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        # So long that Python takes its lock from nobody: it must be given up.
        sys.setswitchinterval(1000)
        while not ran.is_set() and len(seen) < 50:
            attend(kernels, rows, [2000])
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert any(seen)
