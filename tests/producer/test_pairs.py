"""How a query and a document become one sequence, against the Rust tokenizer's own pairs."""

import json
import re
from typing import Any

import numpy as np
import pytest
from headrace import InputError
from headrace.pairs import PairTokenizer
from headrace.tokens import TextTokenizer
from headrace_contracts import PairTemplate
from headrace_engine import Engine
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from .specs import scorer

# How a pair is joined in the families; MiniLM's own is BERT's.
POST_PROCESSORS: dict[str, Any] = {
    "MiniLM's own": "own",
    "BERT's of old": {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]},
    "RoBERTa's": {
        "type": "RobertaProcessing",
        "sep": ["[SEP]", 102],
        "cls": ["[CLS]", 101],
        "trim_offsets": True,
        "add_prefix_space": False,
    },
    "none": None,
}
words = st.sampled_from(["wheel", "water", "unturnable", "…", "[SEP]", "{document}", "\n", "Ä"])
texts = st.text(max_size=40) | st.lists(words, max_size=20).map(" ".join)


@pytest.fixture(scope="module")
def plain(minilm: Engine) -> Tokenizer:
    """MiniLM's tokenizer, which neither truncates nor pads."""
    return TextTokenizer(Tokenizer.from_str(minilm.checkpoint.tokenizer_json.decode()), 1).rust


@pytest.fixture(scope="module")
def families(plain: Tokenizer) -> dict[str, tuple[Tokenizer, Tokenizer]]:
    """For each way to join a pair a tokenizer that does not truncate, and an oracle that may."""
    fields = json.loads(plain.to_str())
    files = {
        name: json.dumps(fields if wanted == "own" else fields | {"post_processor": wanted})
        for name, wanted in POST_PROCESSORS.items()
    }
    return {name: (Tokenizer.from_str(file), Tokenizer.from_str(file)) for name, file in files.items()}


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_pairs_are_those_of_the_tokenizer_with_only_the_document_cut(
    families: dict[str, tuple[Tokenizer, Tokenizer]], data: st.DataObject
) -> None:
    tokenizer, oracle = families[data.draw(st.sampled_from(sorted(families)))]
    query, documents = data.draw(texts), data.draw(st.lists(texts, max_size=5))
    max_length = data.draw(st.integers(4, 40))
    oracle.no_truncation()
    full = [len(oracle.encode(query, document)) for document in documents]
    pairs = PairTokenizer(tokenizer, scorer(max_length=max_length))
    if len(oracle.encode(query, "")) >= max_length:
        with pytest.raises(InputError, match="no room for a document"):
            pairs.tokenize(query, documents)
        return
    tokenized = pairs.tokenize(query, documents)
    oracle.enable_truncation(max_length, strategy="only_second")
    encodings = [oracle.encode(query, document) for document in documents]
    assert [ids.tolist() for ids in tokenized.sequences] == [encoding.ids for encoding in encodings]
    assert tokenized.segment_ids is not None
    assert [ids.tolist() for ids in tokenized.segment_ids] == [encoding.type_ids for encoding in encodings]
    assert tokenized.full_lengths.tolist() == full
    assert tokenized.truncated.tolist() == [length > max_length for length in full]


def test_segment_ids_are_made_only_for_models_that_tell_segments_apart(plain: Tokenizer) -> None:
    assert PairTokenizer(plain, scorer(num_segments=1)).tokenize("q", ["d"]).segment_ids is None
    tokenized = PairTokenizer(plain, scorer()).tokenize("q", ["d e"])
    assert tokenized.segment_ids is not None
    assert tokenized.segment_ids[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert tokenized.segment_ids[0].dtype == np.uint8


@pytest.mark.parametrize("max_length", [6, 7, 31])
@pytest.mark.parametrize("is_templated", [False, True])
def test_a_query_too_long_is_told_how_long_it_may_be_and_that_is_true(
    plain: Tokenizer, max_length: int, is_templated: bool
) -> None:
    template = PairTemplate(prefix="judge", body="{query} {document}", suffix="[SEP]") if is_templated else None
    tokenizer = PairTokenizer(plain, scorer(max_length=max_length, pair_template=template))
    with pytest.raises(InputError, match=rf"query has 40 tokens.*a pair of scorer may have {max_length} ") as caught:
        tokenizer.tokenize("wheel " * 40, ["water"])
    (most,) = re.findall(r"a query may have (\d+)", str(caught.value))
    fitting = tokenizer.tokenize("wheel " * int(most), ["water runs", ""])
    assert fitting.truncated.tolist() == [True, False]
    assert [len(ids) for ids in fitting.sequences] == [max_length, max_length - 1]
    with pytest.raises(InputError, match="no room"):
        tokenizer.tokenize("wheel " * (int(most) + 1), ["water"])


def test_a_model_whose_template_alone_is_too_long_takes_no_query(plain: Tokenizer) -> None:
    template = PairTemplate(prefix="wheel " * 40, body="{query} {document}", suffix="")
    with pytest.raises(InputError, match="a query may have 0"):
        PairTokenizer(plain, scorer(pair_template=template)).tokenize("q", ["d"])


async def test_a_long_pair_is_tokenised_the_same_in_a_thread(plain: Tokenizer) -> None:
    tokenizer = PairTokenizer(plain, scorer())
    documents = ["the wheel turns " * 500, "short"]
    threaded, here = await tokenizer("query", documents), tokenizer.tokenize("query", documents)
    assert [ids.tolist() for ids in threaded.sequences] == [ids.tolist() for ids in here.sequences]


# -- templates

TEMPLATE = PairTemplate(
    prefix="[CLS] judge {query} !", body="do : {instruction} ask : {query} text : {document}", suffix="[SEP] answer :"
)


@settings(deadline=None)
@given(st.data())
def test_a_template_is_filled_in_one_pass_and_its_body_cut_at_the_end(plain: Tokenizer, data: st.DataObject) -> None:
    prompt, query = data.draw(texts), data.draw(texts)
    documents, max_length = data.draw(st.lists(texts, max_size=5)), data.draw(st.integers(30, 80))
    tokenizer = PairTokenizer(plain, scorer(max_length=max_length, pair_template=TEMPLATE))

    def ids(text: str) -> list[int]:
        return list(plain.encode(text, add_special_tokens=False).ids)

    head = "do : " + prompt + " ask : " + query + " text : "
    around = ids(TEMPLATE.prefix), ids(TEMPLATE.suffix)
    room = max_length - len(around[0]) - len(around[1])
    if len(ids(head)) >= room:
        with pytest.raises(InputError, match="no room for a document"):
            tokenizer.tokenize(query, documents, prompt)
        return
    tokenized = tokenizer.tokenize(query, documents, prompt)
    bodies = [ids(head + document) for document in documents]
    assert [found.tolist() for found in tokenized.sequences] == [around[0] + b[:room] + around[1] for b in bodies]
    assert tokenized.full_lengths.tolist() == [len(around[0]) + len(b) + len(around[1]) for b in bodies]
    assert tokenized.segment_ids is None


@pytest.mark.parametrize("query", ["{document}", "{query}", "{instruction}", "\\1 {0} {}"])
def test_what_a_query_has_in_braces_is_its_own(plain: Tokenizer, query: str) -> None:
    spec = scorer(max_length=80, pair_template=TEMPLATE)
    tokenizer = PairTokenizer(plain, spec)
    body = plain.encode(f"do : {query} ask : {query} text : doc", add_special_tokens=False).ids
    found = tokenizer.tokenize(query, ["doc"], query).sequences[0].tolist()
    assert body in [found[start : start + len(body)] for start in range(len(found))]


@pytest.mark.parametrize("template", [None, PairTemplate(prefix="", body="ask : {query} text : {document}", suffix="")])
def test_a_prompt_without_a_place_of_its_own_stands_before_the_query(
    plain: Tokenizer, template: PairTemplate | None
) -> None:
    tokenizer = PairTokenizer(plain, scorer(pair_template=template))
    with_prompt = tokenizer.tokenize("where to?", ["down"], "query: ").sequences[0]
    written_out = tokenizer.tokenize("query: where to?", ["down"]).sequences[0]
    np.testing.assert_array_equal(with_prompt, written_out)
