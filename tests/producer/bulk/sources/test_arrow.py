"""Arrow IPC, and what Hugging Face saves."""

import json
import random
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from headrace.bulk.sources.open_source import open_source
from headrace.errors import SourceError

from .corpora import all_rows, codes, rows, strings, written

Layout = Literal["file", "stream"]


def write(
    path: Path, table: pa.Table, layout: Layout = "stream", batch: int = 3, compression: str | None = None
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if layout == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("layout", ["file", "stream"])
def test_both_layouts_are_read_from_any_row_on(tmp_path: Path, layout: Layout, compression: str | None) -> None:
    table = pa.table({"id": range(10), "text": [f"t{at}" for at in range(10)]})
    write(tmp_path / "a.arrow", table, layout, compression=compression)
    source = open_source(str(tmp_path / "a.arrow"), id_column="id")
    assert source.shards()[0].num_rows == 10
    for first in range(12):
        assert rows(source, first=first) == [(at, f"t{at}") for at in range(first, 10)]


def test_a_batch_of_any_size_is_given_in_pieces(tmp_path: Path) -> None:
    texts = [str(at) for at in range(10_000)]
    write(tmp_path / "a.arrow", pa.table({"text": texts}), batch=10_000)
    assert [text for _, text in rows(open_source(str(tmp_path / "a.arrow")))] == texts


def test_a_value_that_a_dictionary_has_once_is_not_taken_for_small(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 100), [long])})
    write(tmp_path / "a.arrow", table, batch=100)
    parts = list(open_source(str(tmp_path / "a.arrow")).read(0, 0))
    assert sum(len(part) for part in parts) == 100
    assert max(len(part) for part in parts) <= 16
    assert {text for part in parts for text in part.texts} == {long}


def test_runs_and_views_and_dictionaries_are_strings_too(tmp_path: Path) -> None:
    values = pa.array(["a", "a", None, "b"])
    for array in (pa.compute.run_end_encode(values), values.cast(pa.string_view()), values.dictionary_encode()):
        write(tmp_path / "a.arrow", pa.table({"id": range(4), "text": array}))
        found = rows(open_source(str(tmp_path / "a.arrow"), id_column="id"))
        assert [(id_, text) for id_, text in found if isinstance(text, str)] == [(0, "a"), (1, "a"), (3, "b")]
        assert codes(found) == [None, None, "null", None]


def test_bytes_that_are_no_utf8_harm_their_own_row_only(tmp_path: Path) -> None:
    bad = strings(b"a", b"\xff", None)
    for array in (bad, pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), bad)):
        write(tmp_path / "a.arrow", pa.table({"text": array}), batch=100)
        assert codes(rows(open_source(str(tmp_path / "a.arrow")))) == [None, "invalid_utf8", "null"]


@pytest.mark.parametrize("layout", ["file", "stream"])
def test_a_file_without_rows_has_none(tmp_path: Path, layout: Layout) -> None:
    write(tmp_path / "a.arrow", pa.table({"text": pa.array([], pa.string())}), layout)
    assert rows(open_source(str(tmp_path / "a.arrow"))) == []


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("layout", ["file", "stream"])
def test_a_damaged_file_gives_rows_or_an_error_and_nothing_else(tmp_path: Path, layout: Layout, seed: int) -> None:
    path = tmp_path / "a.arrow"
    texts = pa.array([f"text {at}" for at in range(50)])
    write(path, pa.table({"id": range(50), "text": texts, "d": texts.dictionary_encode()}), layout, batch=20)
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)  # noqa: S311 - damage that repeats
    for _ in range(chance.randint(1, 20)):
        content[chance.randrange(8, len(content))] = chance.randrange(256)
    path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
    for column in ("text", "d"):
        try:
            found = rows(open_source(str(path), column=column, id_column="id"))
        except SourceError:
            continue
        assert len(found) <= 50


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="without so much as a schema"):
        open_source(str(written(tmp_path / "a.arrow", b""))).shards()


def save(folder: Path, parts: list[list[str]], **state: object) -> None:
    """As `Dataset.save_to_disk` writes it."""
    names = [f"data-{at:05d}-of-{len(parts):05d}.arrow" for at in range(len(parts))]
    for name, texts in zip(names, parts, strict=True):
        write(folder / name, pa.table({"text": texts}))
    # In an order that is not that of their names, to see that it is kept.
    listed = [{"filename": name} for name in reversed(names)]
    written(folder / "state.json", json.dumps({"_data_files": listed, "_indices_files": None, **state}).encode())
    written(folder / "dataset_info.json", b"{}")


def test_a_saved_data_set_is_read_in_the_order_that_it_says(tmp_path: Path) -> None:
    save(tmp_path, [["a", "b"], ["c"]])
    assert [text for _, text in all_rows(open_source(str(tmp_path)))] == ["c", "a", "b"]
    assert [text for _, text in all_rows(open_source(str(tmp_path), kind="arrow"))] == ["c", "a", "b"]


def test_of_several_splits_one_has_to_be_chosen(tmp_path: Path) -> None:
    save(tmp_path / "train", [["a"]])
    save(tmp_path / "test", [["b"]])
    written(tmp_path / "dataset_dict.json", b'{"splits": ["train", "test"]}')
    with pytest.raises(SourceError, match=r"has the splits train, test: choose one, as .*/train"):
        open_source(str(tmp_path))
    assert [text for _, text in all_rows(open_source(str(tmp_path / "test")))] == ["b"]
    written(tmp_path / "dataset_dict.json", b'{"splits": ["train"]}')
    assert [text for _, text in all_rows(open_source(str(tmp_path)))] == ["a"]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"_indices_files": [{"filename": "indices.arrow"}]}, "flatten_indices"),
        ({"_data_files": [{"filename": "gone.arrow"}]}, "names 'gone.arrow', which is no file in that folder"),
        ({"_data_files": [{"filename": "../a.arrow"}]}, "is no file in that folder"),
        ({"_data_files": ["a.arrow"]}, "is no file in that folder"),
    ],
)
def test_a_saved_data_set_that_is_not_whole_is_refused(tmp_path: Path, state: dict[str, object], says: str) -> None:
    save(tmp_path, [["a"]], **state)
    with pytest.raises(SourceError, match=says):
        open_source(str(tmp_path))
