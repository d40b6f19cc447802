"""How many copies of a model share the threads, where a library serves several callers at once.

It knows numbers alone. It does not know who serves, or how.
"""

_MOST = 4  # as many batches are handed in at once when throughput is measured: with more copies some would be idle


def size_of_crew(threads: int) -> int:
    """The most copies, up to 4, that leave all the same number of threads, and none over."""
    return max(size for size in range(1, _MOST + 1) if threads % size == 0)
