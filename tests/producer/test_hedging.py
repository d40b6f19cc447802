"""Which queries are late, and how many of them may be asked a second time."""

import pytest
from headrace import Hedging, InputError
from headrace.hedging import Hedges
from headrace.outgoing import Deadline, Outgoing


def query(tokens: int = 12, model: str = "model") -> Outgoing:
    return Outgoing(
        model=model,
        routes=("a", "b"),
        body=b"",
        chunk_id="id",
        tokens=tokens,
        priority="online",
        deadline=Deadline(0, 0),
    )


def asked(hedges: Hedges, chunk: Outgoing, times: int, seconds: float) -> None:
    for _ in range(times):
        hedges.begin(chunk)
        hedges.end(chunk, seconds)


def test_nothing_is_late_before_there_are_replies_to_compare_with() -> None:
    hedges = Hedges(Hedging())
    asked(hedges, query(), 19, 0.1)
    assert hedges.begin(query()) is None
    hedges.end(query(), 0.1)
    assert hedges.begin(query()) == 0.1


def test_a_long_query_is_not_late_for_being_long_nor_one_of_a_larger_model() -> None:
    hedges = Hedges(Hedging())
    asked(hedges, query(tokens=12), 50, 0.004)
    asked(hedges, query(tokens=500), 50, 0.06)
    asked(hedges, query(tokens=12, model="large"), 50, 0.1)
    assert hedges.begin(query(tokens=9)) == 0.004
    assert hedges.begin(query(tokens=450)) == 0.06
    assert hedges.begin(query(model="large")) == 0.1


def test_hedges_are_a_share_of_the_queries() -> None:
    hedges, taken = Hedges(Hedging(share=0.05)), 0
    for _ in range(1000):
        hedges.begin(query())
        taken += hedges.take()
    assert 48 <= taken <= 50


def test_a_fleet_that_slows_down_after_a_good_time_gets_few_copies_at_once() -> None:
    hedges = Hedges(Hedging())
    asked(hedges, query(), 100_000, 0.004)
    assert [hedges.take() for _ in range(20)] == [True] * 10 + [False] * 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantile": 1}, "quantile of hedging is 1: "),
        ({"quantile": -0.4}, "quantile of hedging is -0.4"),
        ({"quantile": "0.95"}, "quantile of hedging is '0.95'"),
        ({"share": 0}, "share of hedging is 0: "),
        ({"share": True}, "share of hedging is True"),
        ({"share": float("nan")}, "share of hedging is nan"),
    ],
)
def test_what_is_no_share_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hedging(**options)  # type: ignore[arg-type]
