"""The engine against sentence-transformers, on real weights."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from headrace_engine import Engine, OutputOptions, finish, pack
from tokenizers import Tokenizer

from .texts import texts
from .vectors import cosines

# sentence-transformers and transformers warn about their own deprecations; which ones depends on their versions.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def sequences(float32: Engine) -> list[npt.NDArray[np.uint32]]:
    tokenizer = Tokenizer.from_str(float32.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(float32.checkpoint.max_length)
    return [np.array(encoding.ids, np.uint32) for encoding in tokenizer.encode_batch(texts())]


@pytest.fixture(scope="module")
def oracle(float32: Engine) -> npt.NDArray[Any]:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow, and only these tests need it

    model = SentenceTransformer(str(float32.checkpoint.path), device="cpu")
    model.max_seq_length = 256
    vectors: npt.NDArray[Any] = model.encode(texts(), batch_size=16, convert_to_numpy=True)
    return vectors


def test_the_texts_run_from_one_token_past_the_limit(float32: Engine) -> None:
    tokenizer = Tokenizer.from_str(float32.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts(), add_special_tokens=False)]
    assert len(lengths) == 200
    assert min(lengths) == 0
    assert 1 in lengths
    assert 500 < max(lengths) <= 700


def test_float32_vectors_are_those_of_sentence_transformers(
    float32: Engine, sequences: list[npt.NDArray[np.uint32]], oracle: npt.NDArray[Any]
) -> None:
    assert cosines(embed(float32, sequences), oracle).min() >= 0.99999


def test_float16_vectors_are_nearly_those_of_sentence_transformers(
    float16: Engine, sequences: list[npt.NDArray[np.uint32]], oracle: npt.NDArray[Any]
) -> None:
    assert cosines(embed(float16, sequences), oracle).min() >= 0.9999


def test_bfloat16_vectors_are_within_a_thousandth_of_sentence_transformers(
    bfloat16: Engine, sequences: list[npt.NDArray[np.uint32]], oracle: npt.NDArray[Any]
) -> None:
    assert cosines(embed(bfloat16, sequences), oracle).min() >= 0.999


def embed(engine: Engine, sequences: list[npt.NDArray[np.uint32]]) -> npt.NDArray[Any]:
    vectors, good = finish(engine.step(pack(sequences)).numpy(), OutputOptions())
    assert good.all()
    return vectors
