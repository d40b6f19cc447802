from collections import UserString

import numpy as np
import pytest
from headrace import InputError
from headrace.texts import read_text, read_texts
from hypothesis import given
from hypothesis import strategies as st


def test_a_str_is_one_text_and_a_list_of_one_is_a_list() -> None:
    assert read_texts("abc") == (["abc"], True)
    assert read_texts(["abc"]) == (["abc"], False)


def test_any_iterable_of_str_will_do() -> None:
    assert read_texts(text for text in ("a", "b")) == (["a", "b"], False)
    assert read_texts(np.array(["a", "b"])) == (["a", "b"], False)
    assert read_texts(()) == ([], False)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "texts is None"),
        (b"bytes", "texts is of type bytes"),
        (7, "texts is of type int"),
        ({"a": 1}, "texts is of type dict"),
        (["a", None], r"texts\[1\] is None"),
        (["a", "b", 3.5], r"texts\[2\] is of type float"),
        ([["nested"]], r"texts\[0\] is of type list"),
        ([UserString("x")], r"texts\[0\] is of type UserString"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(texts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_texts(texts)  # type: ignore[arg-type]


def test_what_is_refused_is_called_what_the_caller_calls_it() -> None:
    with pytest.raises(InputError, match=r"documents\[1\] is None"):
        read_texts(["a", None], "documents")  # type: ignore[list-item]
    with pytest.raises(InputError, match="documents is of type dict"):
        read_texts({}, "documents")


@pytest.mark.parametrize("query", [None, b"bytes", 7, ["a"], UserString("x")])
def test_a_query_is_one_str(query: object) -> None:
    with pytest.raises(InputError, match=r"query is .*: pass a str"):
        read_text(query, "query")  # type: ignore[arg-type]


def test_a_query_is_cleaned_as_texts_are() -> None:
    assert read_text("a\ud800b", "query") == "a\ufffdb"


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert read_texts("a\ud800b")[0] == ["a\ufffdb"]


def test_a_split_surrogate_pair_is_joined_again() -> None:
    assert read_texts("\ud83d\ude00")[0] == ["😀"]


@given(st.text(alphabet=st.characters(codec=None, categories=None)))
def test_every_text_comes_out_as_valid_utf8_and_valid_ones_unchanged(text: str) -> None:
    ((clean,), _) = read_texts(text)
    clean.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert clean == text
