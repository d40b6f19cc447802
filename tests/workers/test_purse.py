import pytest
from headrace_workers.purse import Purse, Share
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

LIMIT, LEAST = 1000, 150


class PurseMachine(RuleBasedStateMachine):
    """Pulls, arrivals and settlements of three pullers, in any order that a broker keeps to."""

    def __init__(self) -> None:
        super().__init__()
        self.purse = Purse(LIMIT, LEAST)
        self.messages: dict[Share, list[int]] = {self.purse.share(): [] for _ in range(3)}

    def shares(self, data: st.DataObject, among: list[Share]) -> Share:
        return among[data.draw(st.integers(0, len(among) - 1))]

    def closed(self) -> list[Share]:
        return [share for share in self.messages if share.credit == 0 and share.free > 0]

    def opened(self) -> list[Share]:
        return [share for share in self.messages if share.credit > 0]

    def holding(self) -> list[Share]:
        return [share for share, messages in self.messages.items() if messages]

    @precondition(lambda self: self.closed())
    @rule(data=st.data())
    def a_pull_opens(self, data: st.DataObject) -> None:
        share = self.shares(data, self.closed())
        share.open_pull(data.draw(st.integers(1, share.free)))

    @precondition(lambda self: self.opened())
    @rule(data=st.data())
    def a_message_arrives_within_its_credit(self, data: st.DataObject) -> None:
        share = self.shares(data, self.opened())
        size = data.draw(st.integers(1, share.credit))
        share.arrive(size)
        self.messages[share].append(size)

    @precondition(lambda self: self.opened())
    @rule(data=st.data())
    def a_pull_ends(self, data: st.DataObject) -> None:
        self.shares(data, self.opened()).end_pull()

    @precondition(lambda self: self.holding())
    @rule(data=st.data())
    def a_message_is_settled(self, data: st.DataObject) -> None:
        share = self.shares(data, self.holding())
        messages = self.messages[share]
        share.settle(messages.pop(data.draw(st.integers(0, len(messages) - 1))))

    @invariant()
    def what_is_taken_never_exceeds_the_limit(self) -> None:
        assert sum(share.taken for share in self.messages) <= LIMIT
        for share, messages in self.messages.items():
            assert share.held == sum(messages)

    @invariant()
    def who_has_nothing_can_always_ask_for_the_least(self) -> None:
        for share in self.messages:
            assert share.taken or share.free >= LEAST


TestPurse = PurseMachine.TestCase


def test_one_puller_alone_has_all_of_it() -> None:
    share = Purse(1000, LEAST).share()
    assert share.free == 1000


def test_one_of_several_takes_what_the_others_do_not_need_in_pulls_of_half_at_most() -> None:
    purse = Purse(1000, 100)
    busy, *_ = (purse.share() for _ in range(3))
    taken = []
    for _ in range(3):
        taken.append(busy.free)
        busy.open_pull(busy.free)
        busy.arrive(busy.credit)
    assert taken == [500, 300, 0]


def test_more_shares_than_the_purse_has_room_for_is_a_bug() -> None:
    purse = Purse(250, 100)
    purse.share()
    purse.share()
    with pytest.raises(ValueError, match="This is a bug: 3 shares of at least 100 do not fit"):
        purse.share()


@given(st.integers(1, 100), st.integers(1, 100))
def test_a_pull_larger_than_what_is_free_is_a_bug(limit: int, more: int) -> None:
    with pytest.raises(ValueError, match="This is a bug"):
        Purse(limit).share().open_pull(limit + more)


def test_a_second_open_pull_is_a_bug() -> None:
    share = Purse(10).share()
    share.open_pull(2)
    with pytest.raises(ValueError, match="This is a bug"):
        share.open_pull(2)


def test_settling_more_than_is_held_is_a_bug() -> None:
    with pytest.raises(ValueError, match="This is a bug"):
        Purse(10).share().settle(1)
