"""Checksums of windows."""

import numpy as np
from headrace.bulk import checksums


def test_the_order_of_ids_does_not_matter_and_all_else_does() -> None:
    assert checksums.of_ids([1, 2, 10]) == checksums.of_ids([10, 1, 2])
    different: list[list[int | str]] = [
        [],
        [1],
        ["1"],
        ["i1"],
        [1, 1],
        [11],
        ["a", "bc"],
        ["ab", "c"],
        ["ab", "\ud800"],
        [-1],
    ]
    assert len({checksums.of_ids(ids) for ids in different}) == len(different)


def test_vectors_are_compared_bit_for_bit() -> None:
    vectors = np.zeros((3, 4), np.float16)
    assert checksums.of_vectors(vectors) == checksums.of_vectors(np.asfortranarray(vectors))
    assert checksums.of_vectors(vectors) != checksums.of_vectors(-vectors)
    assert checksums.of_vectors(vectors[:0]) == checksums.of_vectors(np.empty((0, 9), np.int8))
