import pytest
from headrace_workers.purse import Purse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


class PurseMachine(RuleBasedStateMachine):
    """Pulls, arrivals and settlements in any order that a broker keeps to."""

    def __init__(self) -> None:
        super().__init__()
        self.purse = Purse(1000)
        self.messages: list[int] = []

    @precondition(lambda self: self.purse.credit == 0 and self.purse.free > 0)
    @rule(data=st.data())
    def a_pull_opens(self, data: st.DataObject) -> None:
        self.purse.open_pull(data.draw(st.integers(1, self.purse.free)))

    @precondition(lambda self: self.purse.credit > 0)
    @rule(data=st.data())
    def a_message_arrives_within_its_credit(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, self.purse.credit))
        self.purse.arrive(size)
        self.messages.append(size)

    @rule()
    def the_pull_ends(self) -> None:
        self.purse.end_pull()

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def a_message_is_settled(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.messages) - 1))
        self.purse.settle(self.messages.pop(index))

    @invariant()
    def held_and_credit_never_exceed_the_limit(self) -> None:
        assert self.purse.held == sum(self.messages)
        assert 0 <= self.purse.held + self.purse.credit <= self.purse.limit
        assert self.purse.free == self.purse.limit - self.purse.held - self.purse.credit


TestPurse = PurseMachine.TestCase


@given(st.integers(1, 100), st.integers(1, 100))
def test_a_pull_larger_than_what_is_free_is_a_bug(limit: int, more: int) -> None:
    with pytest.raises(ValueError, match="This is a bug"):
        Purse(limit).open_pull(limit + more)


def test_a_second_open_pull_is_a_bug() -> None:
    purse = Purse(10)
    purse.open_pull(2)
    with pytest.raises(ValueError, match="This is a bug"):
        purse.open_pull(2)


def test_settling_more_than_is_held_is_a_bug() -> None:
    with pytest.raises(ValueError, match="This is a bug"):
        Purse(10).settle(1)
