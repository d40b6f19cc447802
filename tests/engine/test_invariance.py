"""The golden law: a sequence has one vector, whatever is in its batch.

With kernels of our own, in float32 and float16, it is the same to the bit. Where torch computes, it is the same within
tolerances, as 1 − cosine: 1e-5 in float32 and 1e-3 in bfloat16, since its products round differently with the number of
rows.
"""

from random import Random

import numpy as np
import numpy.typing as npt
from headrace_engine import Engine, pack
from headrace_engine.runner import MAX_PART_TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st

from .vectors import cosines, random_ids

# Runs of equal length, since those are computed together: (length, how many).
mixes = st.lists(st.tuples(st.integers(1, 256), st.integers(1, 3)), min_size=1, max_size=3)
shuffles = st.randoms(use_true_random=False)


@settings(max_examples=12, deadline=None)
@given(mix=mixes, seed=st.integers(0, 1000), shuffle=shuffles)
def test_float32_vectors_are_the_same_alone_and_in_any_batch(
    float32: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> None:
    assert divergence(float32, mix, seed, shuffle) <= 1e-5


@settings(max_examples=12, deadline=None)
@given(mix=mixes, seed=st.integers(0, 1000), shuffle=shuffles)
def test_our_own_kernels_give_the_same_bits_alone_and_in_any_batch(
    float32: Engine, float16: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> None:
    for engine in (float32, float16):
        sequences, together, _, alone = three_ways(engine, mix, seed, shuffle)
        assert together.tobytes() == alone.tobytes()
        # More tokens than go through the model at once.
        many = sequences * (1 + MAX_PART_TOKENS // sum(map(len, sequences)))
        assert rows(engine, many)[: len(sequences)].tobytes() == alone.tobytes()


@settings(max_examples=6, deadline=None)
@given(mix=mixes, seed=st.integers(0, 1000), shuffle=shuffles)
def test_bfloat16_vectors_are_the_same_alone_and_in_any_batch(
    bfloat16: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> None:
    assert divergence(bfloat16, mix, seed, shuffle) <= 1e-3


def divergence(engine: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random) -> float:
    """The largest 1 − cosine between vectors made alone, in a batch, and in the batch in another order."""
    _, together, shuffled, alone = three_ways(engine, mix, seed, shuffle)
    return float(1 - min(cosines(together, alone).min(), cosines(together, shuffled).min()))


def three_ways(
    engine: Engine, mix: list[tuple[int, int]], seed: int, shuffle: Random
) -> tuple[list[npt.NDArray[np.uint32]], npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Some sequences, and their rows in a batch, in the batch in another order, and alone."""
    lengths = [length for length, count in mix for _ in range(count)]
    sequences = [random_ids(seed + index, length, 30_000) for index, length in enumerate(lengths)]
    order = list(range(len(sequences)))
    shuffle.shuffle(order)
    shuffled = np.empty((len(sequences), engine.checkpoint.dim), np.float32)
    shuffled[order] = rows(engine, [sequences[index] for index in order])
    alone = np.concatenate([rows(engine, [sequence]) for sequence in sequences])
    return sequences, rows(engine, sequences), shuffled, alone


def rows(engine: Engine, sequences: list[npt.NDArray[np.uint32]]) -> npt.NDArray[np.float32]:
    return engine.step(pack(sequences)).numpy()
