"""Who computes where: the worker on cores of its own, as a device would be, and all else on the others.

It knows affinities, which children inherit. On a single core, and where a system has no affinities, all share what
there is.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """A machine's cores.

    Attributes:
        device: Of the worker.
        others: Of nats-server, the clients, the gateway and this program.
    """

    device: tuple[int, ...]
    others: tuple[int, ...]

    @classmethod
    def of(cls, available: Sequence[int], *, split: bool = True) -> "Cores":
        """Give each side half of them; the device has the odd one.

        Args:
            available: Numbers of the cores.
            split: Or else all may use all.
        """
        ordered = tuple(sorted(available))
        if not split or len(ordered) == 1:
            return cls(ordered, ordered)
        half = (len(ordered) + 1) // 2
        return cls(ordered[:half], ordered[half:])

    @classmethod
    def here(cls, *, split: bool = True) -> "Cores":
        """Those that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return cls.of(tuple(os.sched_getaffinity(0)), split=split)
        return cls.of(range(os.cpu_count() or 1), split=False)

    @property
    def all(self) -> tuple[int, ...]:
        """Of both sides."""
        return tuple(sorted({*self.device, *self.others}))

    @property
    def are_split(self) -> bool:
        """Whether no core is on both sides."""
        return not set(self.device) & set(self.others)


@contextmanager
def on(cores: Sequence[int]) -> Iterator[None]:
    """Have this thread, and the processes that it starts, compute on these cores while the context lasts."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
