"""How online traffic is made: calls come when a loop says, and each is accounted for, however it ends."""

import asyncio
import time

import numpy as np
import pytest
from online.amount import Amount
from online.arrivals import poisson
from online.call import Call, begun, ended, took_ms
from online.capacity import Capacity
from online.driver import Driver, End
from online.plan import Loop, When
from online.tally import Tally


def now(seconds: float) -> When:
    return When(begin_s=time.perf_counter(), seconds=seconds)


@pytest.mark.parametrize("rate", [0.5, 20, 3000])
def test_arrivals_come_in_order_at_their_rate_and_none_too_late(rate: float) -> None:
    seconds = 2000 / rate
    due = poisson(rate, seconds, seed=1)
    assert due == sorted(due)
    assert 0 < due[0] <= due[-1] < seconds
    assert len(due) == pytest.approx(2000, rel=0.1)
    # The gaps of a Poisson process spread as much as they are long.
    assert np.std(np.diff(due)) == pytest.approx(1 / rate, rel=0.15)


def test_arrivals_are_the_same_each_time_and_others_with_another_seed() -> None:
    assert poisson(50, 2, seed=3) == poisson(50, 2, seed=3) != poisson(50, 2, seed=4)


def test_calls_are_cut_to_moments_by_when_they_began_or_ended() -> None:
    calls = [Call(0.0, 0, 500, "answered"), Call(1.0, 0, 1500, "expired"), Call(2.0, 0, 10, "refused")]
    assert [call.kind for call in begun(calls, 1, 2)] == ["expired"]
    assert [call.kind for call in ended(calls, 0, 2.1)] == ["answered", "refused"]
    assert took_ms(calls, "answered", "expired") == [500, 1500]


def test_books_balance_if_each_call_was_answered_refused_or_given_up() -> None:
    calls = [
        Call(0, 0, 1, "answered", 7),
        Call(0, 0, 1, "answered", 8),
        Call(0, 0, 1, "refused"),
        Call(0, 0, 1, "expired"),
    ]
    tally = Tally.of(calls)
    assert (tally.offered, tally.answered, tally.refused, tally.expired, tally.tokens) == (4, 2, 1, 1, 15)
    assert tally.unaccounted == 0
    assert tally.success == 0.5


def test_calls_that_failed_or_never_ended_are_without_an_account() -> None:
    calls = [Call(0, 0, 1, "answered"), Call(0, 0, 1, "failed")]
    assert Tally.of(calls).unaccounted == 1
    assert Tally.of(calls, offered=5).unaccounted == 4
    assert Tally.of([]).success == 0


def test_capacity_is_what_was_answered_between_two_moments() -> None:
    calls = [Call(0.0, 0, 900, "answered", 1000), Call(1.0, 0, 500, "answered", 30), Call(1.0, 0, 900, "answered", 50)]
    calls += [Call(1.2, 0, 100, "expired"), Call(2.5, 0, 900, "answered", 1000)]
    found = Capacity.of(calls, 1.0, 3.0, callers=8, client_cores=0.5, worker_cores=1.0)
    assert (found.calls_per_s, found.tokens_per_s, found.callers) == (1, 40, 8)


def test_a_quick_run_is_shorter_in_every_phase() -> None:
    full, quick = Amount.of(60), Amount.quick()
    for phase in ("overload_s", "capacity_s", "idle_s", "after_s", "phase_s", "ready_s", "build_up_s"):
        assert getattr(quick, phase) < getattr(full, phase)
    assert quick.is_quick
    assert not full.is_quick


async def test_an_open_loop_makes_its_calls_although_none_of_them_ends() -> None:
    blocked = asyncio.Event()
    numbers: list[int] = []
    wanted = len(poisson(400, 0.2, seed=5))

    async def call(number: int) -> End:
        numbers.append(number)
        if len(numbers) == wanted:
            blocked.set()
        await blocked.wait()
        return "answered", 3, 1.5

    when = When(begin_s=time.perf_counter() + 0.01, seconds=0.2)
    # Should the machine stand still, the last calls are left out; then the loop's end lets go of the others.
    asyncio.get_running_loop().call_later(5, blocked.set)
    ran = await Driver(call).run(Loop(rate=400, seed=5), when)
    assert ran.offered == len(ran.calls) == len(numbers) <= wanted
    assert sorted(numbers) == list(range(len(numbers)))
    assert {(call.kind, call.tokens, call.run_ms) for call in ran.calls} == {("answered", 3, 1.5)}
    assert all(call.late_ms >= 0 for call in ran.calls)


async def test_callers_of_a_closed_loop_have_one_call_at_a_time() -> None:
    there = most = 0

    async def call(_: int) -> End:
        nonlocal there, most
        there += 1
        most = max(most, there)
        await asyncio.sleep(0.001)
        there -= 1
        return "refused", 0, 0.0

    ran = await Driver(call).run(Loop(callers=3, pause_s=0.001), now(0.1))
    assert 1 <= most <= 3
    assert ran.offered == len(ran.calls) > 3
    assert ran.cores > 0


async def test_a_call_that_raises_is_one_that_failed_and_its_words_are_kept() -> None:
    async def call(number: int) -> End:
        raise ConnectionError(f"number {number}")

    ran = await Driver(call).run(Loop(rate=500, seed=1), now(0.1))
    assert {call.kind for call in ran.calls} == {"failed"}
    assert ran.errors[0] == "ConnectionError('number 0')"
    assert len(ran.errors) <= 5
    assert Tally.of(ran.calls, ran.offered).unaccounted == ran.offered > 0


async def test_an_open_loop_that_is_far_behind_ends_when_it_was_to_end() -> None:
    async def call(_: int) -> End:
        time.sleep(0.02)  # noqa: ASYNC251 - a process that has no time is what this is about
        return "answered", 1, 0.0

    ran = await Driver(call).run(Loop(rate=2000, seed=1), now(0.1))
    assert 0 < ran.offered < 20
