"""A JSON file of a checkpoint, and what is wrong with it."""

import os
from pathlib import Path

import pytest
from headrace_engine import CheckpointError
from headrace_engine.document import MAX_SIZE, Document

FILE = Path("config.json")


def test_a_default_stands_for_a_field_that_is_absent_or_null_and_for_no_other() -> None:
    document = Document(FILE, {"null": None, "zero": 0, "no": False, "other": 1})
    defaults = {"absent": 5, "null": 5, "zero": 5, "no": 5}
    assert document.with_defaults(defaults).values == {"absent": 5, "null": 5, "zero": 0, "no": False, "other": 1}


@pytest.mark.parametrize("text", ["", "[" * 99_999, '{"a": ' * 99_999, "1" * 9999, "\x00"])
def test_a_file_that_cannot_be_read_as_json_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON that can be read"):
        Document.read(file)


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"a": ["\\uDC00 x"]}', '{"\\udfff": 1}'])
def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON that can be read .*surrogates not allowed"):
        Document.read(file)
    file.write_text('{"a": "\\ud83d\\ude00"}')
    assert Document.read(file).values == {"a": "\U0001f600"}


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "zero"):
        with pytest.raises(CheckpointError, match="is no regular file"):
            Document.read(path)


def test_a_value_is_shown_in_some_words_however_large_or_deep() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 10_000, list(range(10_000)), {index: index for index in range(10_000)}, 10**3000):
        with pytest.raises(CheckpointError) as caught:
            Document(FILE, {"eps": value}).get("eps", bool)
        assert "config.json: eps=" in str(caught.value)
        assert len(str(caught.value)) < 1000


def test_a_whole_number_may_stand_where_a_float_should() -> None:
    value = Document(FILE, {"eps": 1}).require("eps", float)
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize("value", ["1", True, [1.0], float("nan"), float("inf"), -(10**400)])
def test_what_is_no_finite_number_is_no_float(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: eps=.* should be of type float and finite"):
        Document(FILE, {"eps": value}).get("eps", float)


@pytest.mark.parametrize("size", [0, -1, MAX_SIZE + 1])
def test_a_size_is_at_least_1_and_not_beyond_all_bounds(size: int) -> None:
    with pytest.raises(CheckpointError, match=f"config.json: width={size} should be between 1 and {MAX_SIZE}"):
        Document(FILE, {"width": size}).require_size("width")
