"""Up to which number of tokens graphs pay: which batches to try, when to stop, and what follows.

Pure decisions. It knows eager and replayed times. It does not know how they are measured.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace_engine.buckets import Buckets, spread
from headrace_engine.tuning.mix import Lengths

RUNGS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
_LENGTHS = (32, 256)  # of queries and of chunks; the third is the model's longest
_SHARE = 0.03
_PATIENCE = 2


@dataclass(frozen=True, slots=True)
class Rung:
    """What batches of one number of tokens take.

    Attributes:
        tokens: Of the graph that is replayed, padding among them.
        eager_ms: Launch by launch; of several batches the geometric mean.
        replay_ms: By the graph.
    """

    tokens: int
    eager_ms: float
    replay_ms: float

    @property
    def pays(self) -> bool:
        """Whether replaying takes at least 3 % off the time: less is no reason for memory and captures."""
        return self.replay_ms <= (1 - _SHARE) * self.eager_ms

    def __str__(self) -> str:
        """Name it for a person."""
        return f"{self.tokens} tokens {self.eager_ms:.3g} ms eagerly and {self.replay_ms:.3g} ms replayed"


def compositions(tokens: int, buckets: Buckets) -> list[Lengths]:
    """Batches that are padded to so many tokens, or a little over: of short, middling and longest texts.

    They are half a step short of it, so that a replay computes as much padding as one does on average.

    Args:
        tokens: One of `RUNGS`.
        buckets: What batches are padded to.
    """
    step = buckets.fine_step if tokens <= buckets.fine_tokens else buckets.coarse_step
    real = tokens - step // 2
    longest = (min(length, buckets.max_length) for length in (*_LENGTHS, buckets.max_length))
    found = (spread(real, -(-real // length)).tolist() for length in longest)
    return [tuple(lengths) for lengths in dict.fromkeys(map(tuple, found))]


def while_it_pays(rungs: Iterable[Rung]) -> Iterator[Rung]:
    """Take rungs, smallest first, until two in a row have not paid; no further one is asked for."""
    missed = 0
    for rung in rungs:
        yield rung
        missed = 0 if rung.pays else missed + 1
        if missed == _PATIENCE:
            return


def largest_paying(rungs: Iterable[Rung]) -> int | None:
    """The largest number of tokens that pays, 0 where none does, and None where there are no rungs."""
    found = list(rungs)
    if not found:
        return None
    return max((rung.tokens for rung in found if rung.pays), default=0)
