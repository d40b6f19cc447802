"""The workloads are what they claim to be, each time."""

import numpy as np
import pytest
from headrace_engine import Engine
from workloads import QUERIES, SHAPES, Shape, documents

VOCAB_SIZE = 30522
SEQUENCES_AND_TOKENS = {
    "10 tok": (1, 10),
    "128 tok": (1, 128),
    "512 tok": (1, 512),
    "8×64": (8, 512),
    "16×128": (16, 2048),
    "100×20": (100, 2000),
    "mixed": (128, 16_377),
}


def test_the_seven_shapes_have_the_tokens_they_claim() -> None:
    assert {shape.name: (len(shape.lengths), shape.num_tokens) for shape in SHAPES} == SEQUENCES_AND_TOKENS


def test_mixed_lengths_spread_from_5_to_249() -> None:
    lengths = SHAPES[-1].lengths
    assert 5 <= min(lengths) < 15
    assert 240 <= max(lengths) <= 249


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_sequences_are_words_of_the_vocabulary_between_cls_and_sep(shape: Shape) -> None:
    sequences = shape.sequences(VOCAB_SIZE)
    assert tuple(map(len, sequences)) == shape.lengths
    for sequence in sequences:
        assert sequence.dtype == np.uint32
        assert (sequence[0], sequence[-1]) == (101, 102)
        assert sequence.max() < VOCAB_SIZE
        assert not {0, 100, 101, 102, 103} & set(sequence[1:-1].tolist())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_sequences_are_the_same_on_each_call(shape: Shape) -> None:
    for one, other in zip(shape.sequences(VOCAB_SIZE), shape.sequences(VOCAB_SIZE), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_vocabulary_is_that_of_the_demo_model(minilm: Engine) -> None:
    assert minilm.checkpoint.vocab_size == VOCAB_SIZE


def test_queries_are_short_and_all_different() -> None:
    assert len(set(QUERIES)) == 32
    assert all(4 <= len(query.split()) <= 12 for query in QUERIES)


def test_documents_are_short_to_middle_and_the_same_on_each_call() -> None:
    texts = documents(50)
    assert texts == documents(50)
    assert len(set(texts)) == 50
    assert all(5 <= len(text.split()) <= 40 for text in texts)
