"""What counting costs is measured by counting all that a worker counts."""

import counting_cost
from headrace_engine import Engine
from headrace_workers import Counters


def test_a_case_is_a_step_of_the_engine_beside_all_that_is_counted_of_it(minilm: Engine) -> None:
    case = counting_cost.measured(minilm, chunks=3, tokens=5, seconds=0.0)
    assert (case.chunks, case.tokens) == (3, 5)
    assert 0 < case.counting_us < case.step_us
    assert 0 < case.share < 1


def test_nothing_is_in_hand_after_a_step_was_counted() -> None:
    counters = Counters()
    works = (counting_cost.chunk(5), counting_cost.chunk(5))
    counting_cost.counted(counters, counting_cost.step(works))
    assert (counters.delivered, counters.answered, counters.steps) == (2, 2, 1)
    assert (counters.held_tokens, counters.tokens, counters.tokens_out["online"]) == (0, 10, 10)
