from headrace_contracts import Presence
from headrace_workers.fleet import Fleet


def fleet(me: str = "b", now_s: float = 100) -> Fleet:
    made = Fleet(me, every_s=2)
    made.listen(now_s)
    return made


def present(worker: str, rate: int | None = 1000, *, leaving: bool = False) -> Presence:
    return Presence(worker=worker, every_ms=2000, rate=rate, leaving=leaving)


def test_a_worker_alone_sets_limits_once_it_has_heard_nobody_for_longer_than_anybody_is_silent() -> None:
    alone = fleet()
    assert not alone.view(102, 500).sets_limits
    view = alone.view(103, 500)
    assert (view.workers, view.rate, view.sets_limits) == (("b",), 500, True)


def test_before_it_listens_a_worker_sets_nothing() -> None:
    assert not Fleet("b", every_s=2).view(1e9, 500).sets_limits


def test_of_those_that_are_there_the_first_name_sets_limits() -> None:
    mine = fleet("b")
    mine.hear(present("c"), 101)
    assert mine.view(104, 500).sets_limits
    mine.hear(present("a"), 104)
    view = mine.view(104, 500)
    assert (view.workers, view.sets_limits) == (("a", "b", "c"), False)


def test_rates_add_up_and_whoever_does_not_know_its_own_counts_as_the_mean() -> None:
    mine = fleet()
    mine.hear(present("a", 1000), 101)
    mine.hear(present("c", 3000), 101)
    assert mine.view(102, 500).rate == 4500
    assert mine.view(102, None).rate == 6000
    mine.hear(present("d", None), 101)
    assert mine.view(102, None).rate == 8000


def test_where_nobody_knows_its_rate_there_is_none() -> None:
    mine = fleet()
    mine.hear(present("a", None), 101)
    assert mine.view(102, None).rate is None


def test_a_rate_of_zero_is_known() -> None:
    assert fleet().view(102, 0).rate == 0


def test_two_announcements_may_be_lost_but_not_three() -> None:
    mine = fleet()
    mine.hear(present("a"), 101)
    assert mine.view(106.9, 1).workers == ("a", "b")
    assert mine.view(107, 1).workers == ("b",)
    mine.hear(present("a"), 108)
    assert mine.view(108, 1).workers == ("a", "b")


def test_how_long_silence_lasts_is_by_the_interval_of_whoever_is_silent() -> None:
    mine = fleet()
    mine.hear(Presence(worker="a", every_ms=60_000), 101)
    assert mine.view(280, 1).workers == ("a", "b")


def test_who_leaves_is_gone_at_once_and_may_come_back() -> None:
    mine = fleet()
    mine.hear(present("a"), 101)
    mine.hear(present("a", leaving=True), 101.1)
    assert mine.view(103, 1).sets_limits
    mine.hear(present("a"), 103)
    assert not mine.view(103, 1).sets_limits


def test_a_stranger_that_leaves_changes_nothing() -> None:
    mine = fleet()
    mine.hear(present("a", leaving=True), 101)
    assert mine.view(103, 1).workers == ("b",)


def test_a_worker_that_hears_itself_counts_once_and_not_as_it_was() -> None:
    mine = fleet()
    mine.hear(present("b", 9999), 101)
    view = mine.view(103, 500)
    assert (view.workers, view.rate) == (("b",), 500)


def test_after_a_lost_connection_a_worker_listens_anew_before_it_sets_limits() -> None:
    mine = fleet()
    mine.hear(present("c"), 101)
    mine.listen(200)
    view = mine.view(202, 500)
    assert (view.workers, view.sets_limits) == (("b",), False)
    mine.hear(present("a"), 202)
    assert not mine.view(203, 500).sets_limits
