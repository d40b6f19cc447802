"""The golden law: a sequence has one vector, whatever is in its batch.

Tolerances, as 1 − cosine: 1e-5 in float32 and 1e-3 in bfloat16. They are not zero because attention takes the faster of
two methods for each run of equal lengths, and matrix products round differently with the number of rows.
"""

from random import Random

import numpy as np
import numpy.typing as npt
from headrace_engine import Engine, pack
from hypothesis import given, settings
from hypothesis import strategies as st

from .vectors import cosines, random_ids

# Runs of equal length, since those are computed together: (length, how many).
mixes = st.lists(st.tuples(st.integers(1, 256), st.integers(1, 5)), min_size=1, max_size=4)
shuffles = st.randoms(use_true_random=False)


@settings(max_examples=12, deadline=None)
@given(mix=mixes, seed=st.integers(0, 1000), shuffle=shuffles)
def test_float32_vectors_are_the_same_alone_and_in_any_batch(
    float32: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> None:
    assert divergence(float32, mix, seed, shuffle) <= 1e-5


@settings(max_examples=6, deadline=None)
@given(mix=mixes, seed=st.integers(0, 1000), shuffle=shuffles)
def test_bfloat16_vectors_are_the_same_alone_and_in_any_batch(
    bfloat16: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> None:
    assert divergence(bfloat16, mix, seed, shuffle) <= 1e-3


def divergence(engine: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random) -> float:
    """The largest 1 − cosine between vectors made alone, in a batch, and in the batch in another order."""
    lengths = [length for length, count in mix for _ in range(count)]
    sequences = [random_ids(seed + index, length, 30_000) for index, length in enumerate(lengths)]
    order = list(range(len(sequences)))
    shuffle.shuffle(order)
    together = rows(engine, sequences)
    shuffled = rows(engine, [sequences[index] for index in order])
    alone = np.concatenate([rows(engine, [sequence]) for sequence in sequences])
    closest = min(cosines(together, alone).min(), cosines(together[order], shuffled).min())
    return float(1 - closest)


def rows(engine: Engine, sequences: list[npt.NDArray[np.uint32]]) -> npt.NDArray[np.float32]:
    return engine.step(pack(sequences)).numpy()
