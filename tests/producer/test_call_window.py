from headrace.call_window import LEAST, CallWindow
from headrace_contracts import Usage


def usage(queue_ms: float) -> Usage:
    return Usage(tokens=1, queue_ms=queue_ms, run_ms=10, batch_tokens=1)


def replies(window: CallWindow, in_flight: int, queue_ms: float, number: int) -> int:
    """So many are on their way after so many replies, if each place is taken at once."""
    for _ in range(number):
        in_flight += window.freed_by(usage(queue_ms)) - 1
    return in_flight


def test_it_grows_while_chunks_wait_no_longer_than_half_a_step() -> None:
    assert replies(CallWindow(), LEAST, 5, LEAST + 20) == LEAST + 20


def test_it_stays_where_one_worker_runs_half_of_the_chunks_at_a_time() -> None:
    window = CallWindow()
    in_flight = LEAST
    for _ in range(20):
        in_flight = replies(window, in_flight, 0, LEAST // 2)
        in_flight = replies(window, in_flight, 10, LEAST // 2)
    assert in_flight == LEAST


def test_it_stays_while_they_wait_for_no_more_than_the_step_before_theirs() -> None:
    assert replies(CallWindow(), LEAST, 6, 20) == LEAST
    assert replies(CallWindow(), LEAST, 10, 20) == LEAST


def test_it_shrinks_to_its_least_while_they_wait_longer() -> None:
    window = CallWindow()
    grown = replies(window, LEAST, 5, LEAST + 20)
    assert replies(window, grown, 11, 15) == LEAST + 5
    assert replies(window, LEAST + 5, 11, 100) == LEAST
