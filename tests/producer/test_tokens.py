"""Texts are cut as the Rust tokenizer itself would cut them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headrace.errors import HeadraceError, InputError
from headrace.published import Model
from headrace.tokens import TextTokenizer
from headrace_engine import Engine
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ..engine.byte_level import END, write_tokenizer
from ..engine.prompted import MAX_LENGTH, PROMPTS, save_prompted, sentence_transformer
from .specs import scorer

texts = st.text(max_size=80) | st.lists(st.sampled_from(["wheel", "water", "unturnable", "…", "\n"])).map(" ".join)


@pytest.fixture(scope="module")
def tokenizer_json(minilm: Engine) -> str:
    return minilm.checkpoint.tokenizer_json.decode()


def reader(tokenizer_json: str, max_length: int, *, include_prompt: bool = True) -> TextTokenizer:
    return TextTokenizer(Tokenizer.from_str(tokenizer_json), max_length, include_prompt=include_prompt)


@pytest.mark.parametrize("max_length", [3, 4, 20])
def test_ids_and_lengths_are_those_of_the_tokenizer(tokenizer_json: str, max_length: int) -> None:
    tokenizer, oracle = reader(tokenizer_json, max_length), Tokenizer.from_str(tokenizer_json)
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


def without_special_tokens(tokenizer_json: str) -> bytes:
    """A file whose post-processor names tokens that it does not have."""
    found = json.loads(tokenizer_json)
    found["post_processor"]["special_tokens"] = {}
    return json.dumps(found).encode()


def test_what_a_published_tokenizer_cannot_do_is_an_error_of_ours_be_it_a_panic_of_rust(tokenizer_json: str) -> None:
    spec = scorer(name="m")
    for broken in (b"", b"\xff", b"{}", b"[" * 9999):
        with pytest.raises(HeadraceError, match="the published tokenizer of 'm' cannot be used"):
            Model.of(spec, broken)
    panicking = Model.of(spec, without_special_tokens(tokenizer_json))
    with pytest.raises(HeadraceError, match="the model's tokenizer fails: no entry found for key"):
        panicking.texts.tokenize(["text"])
    with pytest.raises(HeadraceError, match="the model's tokenizer fails"):
        panicking.pairs.tokenize("query", ["text"])


@pytest.mark.parametrize("max_length", [0, 1])
def test_a_limit_that_special_tokens_alone_exceed_is_an_error_that_says_so(
    tokenizer_json: str, max_length: int
) -> None:
    for text in ("", "one two three"):
        with pytest.raises(InputError, match=f"takes {max_length} tokens, which .* special tokens alone exceed"):
            reader(tokenizer_json, max_length).tokenize([text])
    assert [len(ids) for ids in reader(tokenizer_json, 2).tokenize(["", "one two three"]).sequences] == [2, 2]


async def test_a_prompt_stands_before_each_text(tokenizer_json: str) -> None:
    tokenizer = reader(tokenizer_json, 32)
    with_prompt, written_out = await asyncio.gather(
        tokenizer(["one", "two"], "query: "), tokenizer(["query: one", "query: two"])
    )
    for one, two in zip(with_prompt.sequences, written_out.sequences, strict=True):
        np.testing.assert_array_equal(one, two)


def test_texts_that_are_tokenised_some_at_a_time_come_out_as_each_alone(tokenizer_json: str) -> None:
    tokenizer = reader(tokenizer_json, 32)
    some = ["", "the wheel turns " * 9000, "unturnable " * 9000, "water", "", *["a mill " * 5000] * 7, "last"]
    together, alone = tokenizer.tokenize(some), [tokenizer.tokenize([text]) for text in some]
    assert [ids.tolist() for ids in together.sequences] == [each.sequences[0].tolist() for each in alone]
    assert together.full_lengths.tolist() == [int(each.full_lengths[0]) for each in alone]


async def test_long_texts_leave_the_event_loop_free(tokenizer_json: str) -> None:
    tokenizing = asyncio.create_task(reader(tokenizer_json, 32)(["the wheel turns " * 20_000]))
    turns = 0
    while not tokenizing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3
    assert (await tokenizing).truncated.all()


# -- the tokens of a prompt


@pytest.fixture(scope="module", params=[True, False], ids=["special tokens", "none"])
def prompted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompted")
    save_prompted(path, has_special_tokens=request.param)
    return path


# What transformers warns of depends on its version.
@pytest.mark.filterwarnings("ignore")
def test_a_prompt_is_counted_as_sentence_transformers_counts_it(prompted: Path) -> None:
    tokenizer_json = (prompted / "tokenizer.json").read_text("utf-8")
    tokenizer = reader(tokenizer_json, MAX_LENGTH, include_prompt=False)
    transformer: Any = sentence_transformer(prompted)[0]
    for name, prompt in PROMPTS.items():
        if not tokenizer.rust.encode(prompt).ids:
            continue  # of which sentence-transformers raises IndexError, or knows no length
        features = transformer.preprocess(["w20 w21", "w22"], prompt=prompt)
        tokenized = tokenizer.tokenize(["w20 w21", "w22"], prompt)
        assert tokenized.sequences[0].tolist() == features["input_ids"][0].tolist()
        assert tokenized.skip == (features["prompt_length"] if prompt else 0), name


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(st.text(max_size=30) | st.lists(st.sampled_from([END, "<|im_end|>", "the", " ", "\n"])).map("".join))
def test_a_prompt_in_bytes_is_counted_as_transformers_would(byte_level: tuple[TextTokenizer, Any], prompt: str) -> None:
    tokenizer, oracle = byte_level
    ids = oracle([prompt], truncation=True, max_length=MAX_LENGTH)["input_ids"][0]
    expected = len(ids) - (ids[-1] in oracle.all_special_ids) if prompt else 0
    assert tokenizer.tokenize(["text"], prompt).skip == expected


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextTokenizer, Any]:
    """A tokenizer that puts a special token after each text and none before it; and transformers' own of it."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - slow to import

    path = tmp_path_factory.mktemp("bytes")
    write_tokenizer(path, additional_special_tokens=["<|im_start|>", "<|im_end|>"])
    tokenizer_json = (path / "tokenizer.json").read_text("utf-8")
    oracle: Any = AutoTokenizer.from_pretrained(path)
    return reader(tokenizer_json, MAX_LENGTH, include_prompt=False), oracle


@pytest.mark.parametrize(("prompt", "skip"), [("w7 w8 ", 3), ("w7", 2), (" ", 1), ("", 0)])
def test_a_special_token_in_front_counts_and_one_at_the_end_does_not(tmp_path: Path, prompt: str, skip: int) -> None:
    save_prompted(tmp_path)
    tokenizer_json = (tmp_path / "tokenizer.json").read_text("utf-8")
    assert reader(tokenizer_json, MAX_LENGTH, include_prompt=False).tokenize(["w9"], prompt).skip == skip
    assert reader(tokenizer_json, MAX_LENGTH).tokenize(["w9"], prompt).skip == 0


def test_a_prompt_without_tokens_skips_nothing(tmp_path: Path) -> None:
    save_prompted(tmp_path, has_special_tokens=False)
    tokenizer_json = (tmp_path / "tokenizer.json").read_text("utf-8")
    assert reader(tokenizer_json, MAX_LENGTH, include_prompt=False).tokenize(["w9"], " ").skip == 0


async def test_texts_that_are_cut_keep_the_prompts_tokens(tmp_path: Path) -> None:
    save_prompted(tmp_path)
    tokenizer_json = (tmp_path / "tokenizer.json").read_text("utf-8")
    tokenizer = reader(tokenizer_json, MAX_LENGTH, include_prompt=False)
    tokenized = await tokenizer(["w9 " * 100, "w9"], "w7 w8 ")
    assert [len(ids) for ids in tokenized.sequences] == [MAX_LENGTH, 5]
    assert tokenized.skip == 3
    longest = await tokenizer(["w9"], "w7 " * 100)
    assert (longest.sequences[0].size, longest.skip) == (MAX_LENGTH, MAX_LENGTH - 1)
