"""A checker that finds nothing is worth what it would have found: each kind of fault is planted, and must be named."""

import re

import pytest
from survival.checker import Allowed, Freeze, Gap, check, check_ledger, gaps
from survival.history import CANCELLED, NEVER, RESULT, Asked, Ended
from survival.ledger import Ledger

from .histories import DIGESTS, asked, ended, history


def found(*records: Asked | Ended, allowed: Allowed | None = None) -> str:
    """The only violation."""
    (violation,) = check([history(*records)], DIGESTS, allowed)
    assert "a-1" in violation
    return violation


def is_good(*records: Asked | Ended, allowed: Allowed | None = None) -> bool:
    return not check([history(*records)], DIGESTS, allowed)


def test_a_good_history_passes() -> None:
    assert is_good(
        asked(),
        ended(),
        asked("a-2", patience_s=0.3),
        ended("a-2", 10.3, CANCELLED),
        asked("a-3"),
        ended("a-3", 10.1, "Overloaded", code="overloaded"),
        asked("a-4"),
        ended("a-4", 11.0, "DeadlineExceeded", code="expired"),
        # It came just when its caller gave up.
        asked("a-5", patience_s=0.3),
        ended("a-5", 10.3),
    )
    assert not check([], DIGESTS)


def test_a_call_without_an_end_is_named() -> None:
    assert found(asked()) == "a-1 has no end"


def test_a_call_that_its_caller_waited_for_in_vain_is_named() -> None:
    assert "did not end in 11.0 s" in found(asked(), ended(at_s=21.0, end=NEVER))


def test_a_call_that_ends_twice_is_named() -> None:
    assert found(asked(), ended(), ended(at_s=10.6, end="Overloaded")) == "a-1 ended 2 times: result, Overloaded"


def test_an_end_of_nothing_is_named() -> None:
    assert "never asked" in found(ended())


def test_two_calls_of_one_name_are_named() -> None:
    both = [history(asked(), ended()), history(asked(), ended(), caller="b")]
    assert check(both, DIGESTS) == ["a-1 was asked 2 times: names are to be unique"]


@pytest.mark.parametrize("end", [RESULT, "DeadlineExceeded", "Overloaded"])
def test_an_end_after_the_timeout_is_named(end: str) -> None:
    assert "3.0 s after them" in found(asked(), ended(at_s=14.0, end=end))


def test_a_call_that_was_given_up_must_end_then() -> None:
    late = asked(timeout_s=20.0, patience_s=0.5), ended(at_s=14.0, end=CANCELLED)
    assert "had 0.5 s and ended (cancelled) 3.5 s after them" in found(*late)


def test_who_stood_still_may_be_late_by_as_long() -> None:
    late = asked(), ended(at_s=17.0)
    frozen = Freeze(began_s=9.0, ended_s=14.0), Freeze(began_s=13.0, ended_s=14.5, caller="a")
    assert is_good(*late, allowed=Allowed(freezes=frozen))
    assert not is_good(*late, allowed=Allowed(freezes=frozen[1:]))
    # Those that overlap count once, and those of others not at all.
    twice = (Freeze(began_s=10.0, ended_s=12.0), Freeze(began_s=10.0, ended_s=12.0))
    assert "4.0 s after them" in found(*late, allowed=Allowed(freezes=twice))
    assert not is_good(*late, allowed=Allowed(freezes=[Freeze(began_s=10.0, ended_s=17.0, caller="b")]))


@pytest.mark.parametrize("end", ["builtins.RuntimeError", "nats.errors.TimeoutError"])
def test_an_error_that_is_none_of_ours_is_named(end: str) -> None:
    assert f"no error of ours: {end}: oh" in found(asked(), ended(end=end, text="oh"))


@pytest.mark.parametrize("end", ["InputError", "ConnectionFailed", "ModelNotFound", "RequestFailed", "AccessDenied"])
def test_an_error_that_makes_no_sense_is_named(end: str) -> None:
    assert "makes no sense" in found(asked(), ended(end=end))
    assert is_good(asked(), ended(end=end), allowed=Allowed(errors={end}))


def test_an_error_may_make_sense_by_its_code() -> None:
    failed = asked(), ended(end="RequestFailed", code="internal", text="internal: the engine failed on it")
    assert "makes no sense" in found(*failed)
    assert is_good(*failed, allowed=Allowed(errors={"internal"}))


def test_a_deadline_that_was_told_too_early_is_named() -> None:
    early = asked(timeout_s=5.0), ended(end="DeadlineExceeded", code="expired")
    assert "told after 0.50 s that they were over" in found(*early)
    assert is_good(*early, allowed=Allowed(is_skewed=True))


def test_a_call_that_nobody_gave_up_is_not_cancelled() -> None:
    assert "not by its caller" in found(asked(), ended(end=CANCELLED))


@pytest.mark.parametrize(
    ("digests", "whose"), [(("d0", "d1"), "text 2: that of text 1"), (("d0", "x"), "that of none of the texts")]
)
def test_a_wrong_vector_is_named_and_whose_it_is(digests: tuple[str, ...], whose: str) -> None:
    assert whose in found(asked(), ended(digests=digests))


def test_vectors_in_the_wrong_order_are_named() -> None:
    assert len(check([history(asked(), ended(digests=("d2", "d0")))], DIGESTS)) == 2


def test_too_few_vectors_are_named() -> None:
    assert "asked for 2 vectors and got 1" in found(asked(), ended(digests=("d0",)))


def test_a_text_without_a_vector_needs_a_reason_that_makes_sense() -> None:
    partly = asked(), ended(digests=("d0", ""), errors={1: "non_finite: no number"})
    assert "no vector of text 2, without sense: non_finite" in found(*partly)
    assert is_good(*partly, allowed=Allowed(errors={"non_finite"}))
    alone = asked(texts=(0,)), ended(end="ItemsFailed", errors={0: "non_finite: no number"})
    assert "makes no sense" in found(*alone)
    assert is_good(*alone, allowed=Allowed(errors={"non_finite"}))


def test_a_caller_that_ended_before_its_time_is_named_unless_it_was_killed() -> None:
    cut = history(asked(), stopped_s=None)
    assert len(check([cut], DIGESTS)) == 2
    assert not check([cut], DIGESTS, Allowed(killed={"a"}))
    # What it had been told by then must be right all the same.
    wrong = history(asked(), ended(digests=("d0", "d1")), stopped_s=None)
    assert check([wrong], DIGESTS, Allowed(killed={"a"}))


def test_gaps_lie_between_successes_of_anybody_while_somebody_asks() -> None:
    first = history(asked("a-1", 10.0), ended("a-1", 10.5), asked("a-2", 10.6), ended("a-2", 14.5))
    second = history(asked("b-1", 11.0), ended("b-1", 12.0, "Overloaded"), asked("b-2", 20.0), ended("b-2", 21.0))
    assert gaps([first, second]) == [Gap(10.6, 14.5), Gap(20.0, 21.0), Gap(10.0, 10.5)]
    assert gaps([]) == []


def test_a_call_that_waits_while_others_succeed_makes_a_gap_from_the_last_success_on() -> None:
    waits = history(asked("a-1", 10.0, timeout_s=20), asked("a-2", 10.1), ended("a-2", 11.0), ended("a-1", 15.0))
    assert gaps([waits])[0] == Gap(11.0, 15.0)


def test_a_fleet_that_never_answers_is_one_gap() -> None:
    silent = history(asked("a-1", 10.0), ended("a-1", 11.0, "DeadlineExceeded"), asked("a-2", 12.0))
    assert gaps([silent]) == [Gap(10.0, 12.0)]


def test_a_good_ledger_passes() -> None:
    ledger = Ledger(worker="w", delivered=12, answered=4, refused=1, expired=2, cancelled=1, given_back=3, abandoned=1)
    assert not check_ledger(ledger)


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        (Ledger(worker="w", delivered=3, answered=2), "handed 3 messages and has settled 2"),
        (Ledger(worker="w", held=1), "1 messages in hand"),
        (Ledger(worker="w", queued=2), "2 chunks that waited"),
        (Ledger(worker="w", held_bytes={"online": 7}), "7 bytes of held in its online purse"),
        (Ledger(worker="w", credit_bytes={"batch": 7}), "7 bytes of credit in its batch purse"),
    ],
)
def test_what_a_worker_did_not_settle_is_named(ledger: Ledger, said: str) -> None:
    (violation,) = check_ledger(ledger)
    assert re.search(said, violation)


def test_a_worker_that_failed_has_given_back_what_waited() -> None:
    assert not check_ledger(Ledger(worker="w", failure="the device failed", delivered=2, given_back=2, queued=2))
