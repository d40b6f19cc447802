"""Which of a tenant's queues is taken, by what replies say. Pure: time is an argument."""

from headrace.queue_waits import QueueWaits
from headrace_contracts import Usage

ROUTES = ("first", "second")


def usage(queue_ms: float) -> Usage:
    return Usage(tokens=10, queue_ms=queue_ms, run_ms=100, batch_tokens=10)


def test_while_chunks_wait_for_no_more_than_three_steps_the_order_stays() -> None:
    waits = QueueWaits()
    waits.answered("first", usage(300), 0)
    assert waits.order(ROUTES, 0) == ROUTES


def test_a_queue_in_which_one_waited_for_longer_comes_last_for_a_second() -> None:
    waits = QueueWaits()
    waits.answered("first", usage(301), 0)
    assert waits.order(ROUTES, 0.9) == ("second", "first")
    assert waits.order(ROUTES, 1) == ROUTES


def test_one_chunk_finds_out_and_the_others_stay_away_for_twice_as_long() -> None:
    waits = QueueWaits()
    waits.answered("first", usage(1000), 0)
    waits.tried("first", 1)
    assert waits.order(ROUTES, 2.9) == ("second", "first")
    waits.answered("first", usage(1000), 2.5)
    assert waits.order(ROUTES, 3) == ROUTES


def test_replies_to_chunks_that_were_there_before_do_not_make_it_longer() -> None:
    waits = QueueWaits()
    for _ in range(10):
        waits.tried("first", 0)
        waits.answered("first", usage(1000), 0)
    assert waits.order(ROUTES, 1) == ROUTES


def test_it_is_as_good_as_the_other_once_a_chunk_hardly_waited() -> None:
    waits = QueueWaits()
    waits.answered("first", usage(1000), 0)
    waits.answered("first", usage(10), 0.1)
    assert waits.order(ROUTES, 0.1) == ROUTES


def test_of_two_crowded_queues_the_one_that_was_less_so_comes_first() -> None:
    waits = QueueWaits()
    waits.answered("first", usage(1000), 0)
    waits.answered("second", usage(500), 0)
    assert waits.order(ROUTES, 0.5) == ("second", "first")


def test_a_queue_that_was_full_or_answered_nobody_in_time_comes_behind_all() -> None:
    waits = QueueWaits()
    waits.failed("first", 0)
    waits.answered("second", usage(5000), 0)
    assert waits.order(ROUTES, 0.5) == ("second", "first")
