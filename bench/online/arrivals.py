"""When calls of an open loop begin: whatever became of those before them.

Pure. It knows Poisson arrivals, which is how calls of many callers that know nothing of each other come. It knows no
clock.
"""

import numpy as np


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Seconds after the start at which calls are due, in order, the same ones each time.

    Args:
        rate: Calls a second in the mean, more than 0.
        seconds: None is due later.
        seed: Another one gives others.
    """
    random = np.random.default_rng(seed)
    # Three standard deviations above the mean, so that drawing once is nearly always enough.
    portion = int(rate * seconds + 3 * (rate * seconds) ** 0.5) + 1
    due: list[float] = []
    while not due or due[-1] < seconds:
        first = due[-1] if due else 0.0
        due += (first + np.cumsum(random.exponential(1 / rate, portion))).tolist()
    return due[: int(np.searchsorted(due, seconds))]
