"""How soon after an overload a light load is served as if nothing had been.

Pure. It looks at windows of time: one is good if all its calls were answered, and its p99 is no longer than that of the
worst window while the fleet was idle, so that what is noise on an idle machine counts as noise afterwards.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from online.call import Call

WINDOW_S = 0.5


def windows(calls: Sequence[Call], first_s: float, last_s: float) -> list[list[Call]]:
    """Calls by the half second in which they were made; a part of a window at the end is left out."""
    number = int((last_s - first_s) / WINDOW_S)
    found: list[list[Call]] = [[] for _ in range(number)]
    for call in calls:
        index = int((call.began_s - first_s) / WINDOW_S)
        if first_s <= call.began_s and index < number:
            found[index].append(call)
    return found


def worst_p99_ms(idle: Sequence[Sequence[Call]]) -> float:
    """The longest p99 of any window with a call in it.

    Raises:
        ValueError: There is none.
    """
    return max(_p99_ms(window) for window in idle if window)


def recovered_after_s(after: Sequence[Sequence[Call]], bound_ms: float) -> float | None:
    """Seconds from the start of the first window until two good ones follow each other; None if they never do.

    Args:
        after: Windows since the overload ended.
        bound_ms: What p99 may be.
    """
    good = [bool(window) and _is_good(window, bound_ms) for window in after]
    for index, both in enumerate(pairwise(good)):
        if all(both):
            return index * WINDOW_S
    return None


def _is_good(window: Sequence[Call], bound_ms: float) -> bool:
    return all(call.kind == "answered" for call in window) and _p99_ms(window) <= bound_ms


def _p99_ms(window: Sequence[Call]) -> float:
    return float(np.percentile([call.took_ms for call in window], 99))
