"""The workloads are what they claim to be, each time."""

from pathlib import Path

import numpy as np
import pytest
from headrace_engine import Engine
from workloads import PASSAGES, QUERIES, SHAPES, Lengths, Shape, Texts

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


@pytest.fixture(scope="module")
def texts(minilm: Engine) -> Texts:
    return Texts(Path(minilm.checkpoint.path) / "tokenizer.json")


@pytest.mark.parametrize("lengths", [QUERIES, PASSAGES])
def test_lengths_keep_to_their_bounds_around_their_median_and_have_a_long_tail(lengths: Lengths) -> None:
    drawn = np.array(lengths.draw(5000, 0))
    assert drawn.min() >= lengths.shortest
    assert drawn.max() == lengths.longest
    assert np.median(drawn) == pytest.approx(lengths.median, rel=0.1)
    assert drawn.mean() > np.median(drawn)
    assert lengths.draw(50, 3) == lengths.draw(50, 3) != lengths.draw(50, 4)


def test_texts_have_exactly_the_tokens_asked_for(texts: Texts) -> None:
    lengths = [*QUERIES.draw(50, 1), *PASSAGES.draw(20, 2), 3, 128, 512]
    assert [texts.num_tokens(text) for text in texts.of(lengths)] == lengths


def test_pairs_have_exactly_the_tokens_asked_for(texts: Texts) -> None:
    (query,) = texts.of([12])
    documents = texts.pair(query, [512, 512, 40])
    encoded = texts._tokenizer.encode_batch([(query, document) for document in documents])
    assert [len(encoding) for encoding in encoded] == [512, 512, 40]


def test_texts_are_the_same_each_time_and_all_different(texts: Texts) -> None:
    once = texts.of(PASSAGES.draw(60, 2))
    assert once == texts.of(PASSAGES.draw(60, 2))
    assert len(set(once)) == 60


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


def test_sequences_are_the_same_each_time() -> None:
    for once, again in zip(SHAPES[3].sequences(VOCAB_SIZE), SHAPES[3].sequences(VOCAB_SIZE), strict=True):
        assert once.tolist() == again.tolist()
