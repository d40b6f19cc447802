"""Median times of things that take turns, so that what changes meanwhile changes all of them.

It knows clocks, warm-up and turns. It does not know what is timed.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]  # seconds, ever rising

_WARM_UPS = 3  # an eager run, one that captures, and one that replays
_ROUNDS = 15
_MIN_ROUNDS = 3
_SECONDS = 4


def medians_ms(runs: Sequence[Callable[[], object]], clock: Clock = time.perf_counter) -> list[float]:
    """Run each three times, then all in turn, 15 times, and for 4 s at most or three times.

    Every second round goes backwards, so that none always follows the same one.

    Args:
        runs: Each does the work to be timed, and waits for it.
        clock: What to time with.

    Returns:
        The median duration of each.
    """
    for run in runs:
        for _ in range(_WARM_UPS):
            run()
    durations_ms: list[list[float]] = [[] for _ in runs]
    began_s = clock()
    for turn in range(_ROUNDS):
        if turn >= _MIN_ROUNDS and clock() - began_s > _SECONDS:
            break
        order = range(len(runs))
        for index in order if turn % 2 == 0 else reversed(order):
            durations_ms[index].append(_duration_ms(runs[index], clock))
    return [median(each) for each in durations_ms]


def _duration_ms(run: Callable[[], object], clock: Clock) -> float:
    began_s = clock()
    run()
    return (clock() - began_s) * 1000
