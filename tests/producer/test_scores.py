"""What `score` returns."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from headrace import CallUsage, ErrorCode, InputError, ItemError, ItemsFailed, Ranked, Scores
from headrace.options import ScoreOptions
from headrace.result import Gathered
from headrace.scores import rank
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

FAILED = {2: ItemError(ErrorCode.NON_FINITE, "not finite"), 1: ItemError(ErrorCode.TOO_LONG, "too long")}


def gathered(*scores: float, **attributes: object) -> Gathered:
    rows = np.array(scores, np.float32).reshape(-1, 1)
    told = {"usage": CallUsage(tokens=7), "truncated": (0,), "errors": {}, **attributes}
    return Gathered(rows=rows, **told)  # type: ignore[arg-type]


def test_scores_stand_in_the_order_of_the_documents() -> None:
    scores = Scores.of(gathered(0.5, 0.25, 0.75))
    assert scores.shape == (3,)
    assert scores.tolist() == [0.5, 0.25, 0.75]
    assert (scores.usage.tokens, scores.truncated) == (7, (0,))


def test_the_ranking_is_best_first_with_ties_by_index() -> None:
    scores = Scores.of(gathered(0.5, 0.75, 0.5, 0.75))
    assert scores.ranking == (Ranked(1, 0.75), Ranked(3, 0.75), Ranked(0, 0.5), Ranked(2, 0.5))


def test_the_ranking_has_at_most_top_n_entries_and_the_array_has_all() -> None:
    scores = Scores.of(gathered(0.5, 0.75, 0.25), 2)
    assert [ranked.index for ranked in scores.ranking] == [1, 0]
    assert len(scores) == 3
    assert len(Scores.of(gathered(0.5), 9).ranking) == 1


def test_a_document_without_a_score_is_nan_and_has_no_place() -> None:
    scores = Scores.of(gathered(0.5, np.nan, np.nan, 0.75, errors=FAILED))
    assert [ranked.index for ranked in scores.ranking] == [3, 0]
    assert list(scores.errors) == [1, 2]
    with pytest.raises(ItemsFailed, match=r"2 documents have no score; the first is documents\[1\]: too_long"):
        scores.raise_errors()


def test_one_document_without_a_score_is_said_in_the_singular() -> None:
    with pytest.raises(ItemsFailed, match=r"^1 document has no score; the first is documents\[1\]: too_long"):
        Scores.of(gathered(0.5, np.nan, errors={1: FAILED[1]})).raise_errors()


def test_no_documents_have_no_ranking() -> None:
    assert Scores.of(gathered()).shape == (0,)
    assert Scores.of(gathered()).ranking == ()


def test_a_single_score_is_a_number_that_keeps_its_attributes() -> None:
    single = Scores.of(gathered(0.25)).single()
    assert float(single) == 0.25
    assert f"{single:.2f}" == "0.25"
    assert single.shape == ()
    assert (single.usage.tokens, single.ranking, single.truncated) == (7, (Ranked(0, 0.25),), (0,))


def test_arrays_computed_from_scores_are_not_taken_for_answers() -> None:
    scores = Scores.of(gathered(0.5, np.nan, 0.25, errors=FAILED))
    for computed in (scores * 2, scores[1:], scores.argsort(), np.argsort(scores), np.sort(scores), np.copy(scores)):
        assert type(computed) is np.ndarray
    assert type(scores[0]) is type(scores.max()) is type(scores.mean()) is np.float32
    cast = scores.astype(np.float64)
    assert isinstance(cast, Scores)
    assert (cast.ranking, cast.errors) == ((), {})


@pytest.mark.parametrize("twin", [Scores.copy, copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])  # noqa: S301
def test_copies_and_pickles_keep_the_attributes(twin: Callable[[Scores], Scores]) -> None:
    scores = Scores.of(gathered(0.5, np.nan, 0.25, errors={1: FAILED[1]}))
    same = twin(scores)
    assert type(same) is Scores
    np.testing.assert_array_equal(same, scores)
    assert not np.shares_memory(same, scores)
    assert vars(same) == vars(scores)
    assert type(same.errors) is type(scores.errors)
    assert same.ranking


def test_what_is_computed_in_place_is_the_same_array() -> None:
    scores = same = Scores.of(gathered(0.5, 0.25))
    scores *= 2
    assert scores is same
    assert scores.usage.tokens == 7


@pytest.mark.parametrize("value", [3, "yes", None])
def test_raw_is_true_or_false(value: object) -> None:
    with pytest.raises(InputError, match=f"raw is {value!r}: pass True or False"):
        ScoreOptions(raw=value)  # type: ignore[arg-type]


@given(arrays(np.float32, st.integers(0, 30), elements=st.floats(width=32, allow_infinity=False)), st.integers(1, 40))
def test_a_ranking_is_the_stable_sort_of_what_has_a_score(scores: np.ndarray, top_n: int) -> None:
    known = [(index, float(score)) for index, score in enumerate(scores) if not np.isnan(score)]
    best = sorted(known, key=lambda pair: -pair[1])
    assert [(ranked.index, ranked.score) for ranked in rank(scores, top_n)] == best[:top_n]
    assert len(rank(scores)) == len(known)
