"""A table of LanceDB as a sink."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from headrace.bulk.sinks import lance
from headrace.bulk.sinks.lance import LanceSink
from headrace.errors import CardMismatch, SinkError
from headrace_contracts.messages import Dtype

from ..parts import CARD, assert_holds, card, part


def opened(path: Path) -> LanceSink:
    sink = LanceSink(path, "articles")
    sink.open(CARD, replace=False)
    return sink


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "b1"])
def test_vectors_come_back_bit_for_bit_before_and_after_the_end(tmp_path: Path, dtype: Dtype) -> None:
    sink = LanceSink(tmp_path / "s", "articles")
    sink.open(card(dtype), replace=False)
    one, two = part(range(10), of=card(dtype)), part(range(10, 15), window=1, of=card(dtype), seed=1)
    for each in (one, two, one):
        sink.write(each)
    assert_holds(sink, one, two)
    for _ in range(2):
        sink.finish([one.name, two.name])
        assert_holds(sink, one, two)


def test_a_reader_sees_a_table_with_fixed_size_vectors_and_the_card(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part(["a", "b"], with_texts=True))
    table = lancedb.connect(tmp_path / "s").open_table("articles")
    assert table.schema.types == [pa.string(), pa.binary(16), pa.list_(pa.float32(), CARD.dim), pa.string()]
    assert table.schema.metadata[b"headrace.card"].decode() == CARD.to_json()
    assert table.to_arrow().column("text").to_pylist() == ["text 0 of a", "text 0 of b"]
    assert lancedb.connect(tmp_path / "s").list_tables().tables == ["articles"]


def test_a_row_replaces_the_one_of_its_id_and_rows_that_are_not_new_are_left(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    old, new = part(range(10)), part(range(5, 15), window=1, seed=1)
    sink.write(old)
    sink.write(replace(new, fresh=np.arange(10) != 2))
    assert sink.count() == 15
    found = sink.lookup(range(15))
    assert [found[one].hash for one in (4, 5, 7, 14)] == [old.hashes[4], new.hashes[0], old.hashes[7], new.hashes[9]]
    sink.write(replace(new, fresh=np.zeros(10, np.bool_)))
    sink.write(part([]))
    assert sink.count() == 15


def test_small_files_are_joined_on_the_way_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance, "_ROWS_TO_TIDY", 30)
    monkeypatch.setattr(lance, "_MAX_IDS", 7)
    sink = opened(tmp_path / "s")
    parts = [part([f"{n}-{row}" for row in range(10)], window=n, seed=n) for n in range(8)]
    for each in (*parts, *parts):
        sink.write(each)
    assert_holds(sink, *parts)
    assert len(sink.lookup([one for each in parts for one in each.ids])) == 80


def test_odd_ids_come_back(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    odd = part(["", "\0", "a\0", "'\"\\", "''", "é", "\U0001f600", "x" * 10_000, "7", "%", "--"])
    sink.write(odd)
    sink.write(odd)
    assert_holds(sink, odd)
    assert not sink.lookup([7, "\0\0", "half \ud800", "x", "' OR 1 = 1 --"])
    numbers = opened(tmp_path / "n")
    numbers.write(part([-(2**63), 0, 2**63 - 1]))
    assert_holds(numbers, part([-(2**63), 0, 2**63 - 1]))
    assert not numbers.lookup([2**63, "0", 1])
    with pytest.raises(SinkError, match="holds ids of kind int64, and id 'a' is none"):
        numbers.write(part(["a"]))


def test_nothing_is_there_of_a_table_that_was_never_written_to(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    assert (sink.count(), sink.lookup([1, "a"])) == (0, {})
    sink.finish([])
    sink.close()


def test_a_table_that_a_crash_left_half_made_is_made(tmp_path: Path) -> None:
    (tmp_path / "s/articles.lance/data").mkdir(parents=True)
    (tmp_path / "s/articles.lance/_versions").mkdir()
    sink = opened(tmp_path / "s")
    assert sink.count() == 0
    sink.write(part([1, 2]))
    assert_holds(sink, part([1, 2]))


def test_vectors_of_another_card_are_refused_or_replaced(tmp_path: Path) -> None:
    opened(tmp_path / "s").write(part([1, 2, 3]))
    (tmp_path / "s/_headrace/articles/card.json").unlink()
    other = LanceSink(tmp_path / "s", "articles")
    with pytest.raises(CardMismatch, match="dtype is 'f32', this job has 'i8'"):
        other.open(card("i8"), replace=False)
    other.open(card("i8"), replace=True)
    new = part(["now", "strings"], of=card("i8"))
    other.write(new)
    assert_holds(other, new)


def test_a_table_of_another_program_is_left_alone(tmp_path: Path) -> None:
    lancedb.connect(tmp_path).create_table("articles", pa.table({"id": [1]}))
    with pytest.raises(SinkError, match="is no table of a bulk job"):
        LanceSink(tmp_path, "articles").open(CARD, replace=True)
    LanceSink(tmp_path, "others").open(CARD, replace=False)
    with pytest.raises(SinkError, match="table 'a/b': a name has letters"):
        LanceSink(tmp_path, "a/b")


def test_texts_are_kept_from_the_beginning_or_not_at_all(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part([1], with_texts=True))
    sink.write(part([2]))
    without = opened(tmp_path / "n")
    without.write(part([1]))
    with pytest.raises(SinkError, match="has no column for texts"):
        without.write(part([2], with_texts=True))


def _write_all(path: Path, shard: int, same: range) -> None:
    sink = opened(path)
    for window in range(5):
        sink.write(part([f"{shard}-{window}-{row}" for row in range(20)], shard=shard, window=window, seed=shard))
        sink.write(part([f"same-{row}" for row in same], shard=9))


def test_processes_that_write_at_once_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each finds this module by the path that it is given, whichever way pytest was started.
    monkeypatch.syspath_prepend(Path(__file__).parents[4])
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_all, args=(tmp_path / "s", shard, range(30))) for shard in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    sink = opened(tmp_path / "s")
    assert sink.count() == 3 * 5 * 20 + 30
    assert len(sink.lookup([f"same-{row}" for row in range(30)])) == 30
