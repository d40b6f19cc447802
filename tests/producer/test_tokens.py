"""Texts are cut as the Rust tokenizer itself would cut them."""

import asyncio

import numpy as np
import pytest
from headrace.tokens import TextTokenizer
from headrace_engine import Engine
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

texts = st.text(max_size=80) | st.lists(st.sampled_from(["wheel", "water", "unturnable", "…", "\n"])).map(" ".join)


@pytest.fixture(scope="module")
def tokenizer_json(minilm: Engine) -> str:
    return minilm.checkpoint.tokenizer_json.decode()


@pytest.mark.parametrize("max_length", [3, 4, 20])
def test_ids_and_lengths_are_those_of_the_tokenizer(tokenizer_json: str, max_length: int) -> None:
    tokenizer, oracle = TextTokenizer(tokenizer_json, max_length), Tokenizer.from_str(tokenizer_json)
    oracle.no_padding()

    @settings(deadline=None)
    @given(st.lists(texts, max_size=5))
    def agree(some: list[str]) -> None:
        oracle.no_truncation()
        full = [len(encoding) for encoding in oracle.encode_batch(some)]
        oracle.enable_truncation(max_length)
        tokenized = tokenizer.tokenize(some)
        assert [ids.tolist() for ids in tokenized.sequences] == [encoding.ids for encoding in oracle.encode_batch(some)]
        assert tokenized.full_lengths.tolist() == full
        assert tokenized.truncated.tolist() == [length > max_length for length in full]
        assert tokenized.segment_ids is None

    agree()


async def test_a_prompt_stands_before_each_text(tokenizer_json: str) -> None:
    tokenizer = TextTokenizer(tokenizer_json, 32)
    with_prompt, written_out = await asyncio.gather(
        tokenizer(["one", "two"], "query: "), tokenizer(["query: one", "query: two"])
    )
    for one, two in zip(with_prompt.sequences, written_out.sequences, strict=True):
        np.testing.assert_array_equal(one, two)


async def test_long_texts_leave_the_event_loop_free(tokenizer_json: str) -> None:
    tokenizing = asyncio.create_task(TextTokenizer(tokenizer_json, 32)(["the wheel turns " * 20_000]))
    turns = 0
    while not tokenizing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3
    assert (await tokenizing).truncated.all()
