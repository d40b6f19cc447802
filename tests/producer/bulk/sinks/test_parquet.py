"""A folder of Parquet files as a sink."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from headrace.bulk.sinks.parquet import ParquetSink
from headrace.errors import CardMismatch, SinkError
from headrace_contracts.messages import Dtype

from ..parts import CARD, assert_holds, card, part


def opened(path: Path) -> ParquetSink:
    sink = ParquetSink(path)
    sink.open(CARD, replace=False)
    return sink


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "b1"])
def test_vectors_come_back_bit_for_bit(tmp_path: Path, dtype: Dtype) -> None:
    sink = ParquetSink(tmp_path / "s")
    sink.open(card(dtype), replace=False)
    one, two = part(range(10), of=card(dtype)), part(range(10, 15), window=1, of=card(dtype), seed=1)
    sink.write(one)
    sink.write(two)
    assert_holds(sink, one, two)


def test_a_reader_of_parquet_sees_one_table_with_fixed_size_vectors(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part(["a", "b"], with_texts=True))
    sink.write(part(["c"], shard=1, with_texts=True))
    table = ds.dataset(tmp_path / "s").to_table()
    assert table.schema.types == [pa.string(), pa.binary(16), pa.list_(pa.float32(), CARD.dim), pa.string()]
    assert table.column("id").to_pylist() == ["a", "b", "c"]
    assert table.column("text").to_pylist() == ["text 0 of a", "text 0 of b", "text 0 of c"]
    assert (
        pq.read_schema(tmp_path / "s/part-00001-000000.parquet").metadata[b"headrace.card"].decode() == CARD.to_json()
    )


def test_of_an_id_in_several_files_the_newest_counts_until_the_old_are_dropped(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    old, new = part(range(10)), part(range(5, 15), window=1, seed=1)
    sink.write(old)
    sink.write(new)
    assert sink.count() == 20
    assert sink.lookup([7])[7].hash == new.hashes[2]
    assert sink.lookup([3])[3].hash == old.hashes[3]
    sink.finish([new.name])
    assert_holds(sink, new)
    assert not sink.lookup([3])


def test_ids_of_a_done_job_are_found_in_any_order_and_a_write_ends_that(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    parts = [part([f"{row * 7919 % 500}-{n}" for row in range(50)], window=n, seed=n) for n in range(6)]
    for each in parts:
        sink.write(each)
    sink.finish([each.name for each in parts])
    assert_holds(sink, *parts)
    assert_holds(sink, *reversed(parts))
    everywhere = [one for each in parts for one in each.ids[:3]]
    assert sink.lookup([*everywhere, "nowhere"]).keys() == set(everywhere)
    moved = part([*parts[5].ids], window=2, seed=9)
    sink.write(moved)
    assert sink.lookup(moved.ids)[moved.ids[0]].hash == moved.hashes[0]


def test_each_process_sees_what_another_has_replaced(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "s"), opened(tmp_path / "s")
    one.write(part(range(5)))
    assert_holds(other, part(range(5)))
    one.write(part(range(100, 120), seed=1))
    assert_holds(other, part(range(100, 120), seed=1))


def test_row_groups_are_looked_through_one_by_one(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    many = part(range(20_000))
    sink.write(many)
    assert pq.read_metadata(tmp_path / "s/part-00000-000000.parquet").num_row_groups == 3
    assert_holds(sink, many)


def test_an_empty_part_replaces_what_an_earlier_try_has_written(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part([]))
    sink.write(part(range(3)))
    sink.write(part([]))
    assert_holds(sink)
    sink.finish([part([]).name])


def test_odd_ids_come_back(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    odd = part(["", "\0", "a\0", "'\"\\", "é", "\U0001f600", "x" * 10_000, "7"])
    sink.write(odd)
    assert_holds(sink, odd)
    assert not sink.lookup([7, "\0\0", "half \ud800", "x"])
    numbers = opened(tmp_path / "n")
    numbers.write(part([-(2**63), 0, 2**63 - 1]))
    assert_holds(numbers, part([-(2**63), 0, 2**63 - 1]))
    assert not numbers.lookup([2**63, "0", 1])


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a"], "holds ids of kind int64, and id 'a' is none"),
        ([1, "a"], "id 'a' is none"),
        ([2**63], "9223372036854775808, does not fit into 64 bits"),
        (["half \ud800"], "is no Unicode text"),
    ],
)
def test_an_id_of_another_kind_is_refused_by_name(tmp_path: Path, ids: list[int | str], said: str) -> None:
    opened(tmp_path / "s").write(part([1, 2, 3]))
    sink = opened(tmp_path / "s")
    with pytest.raises(SinkError, match=said):
        sink.write(part(ids, window=1))
    (tmp_path / "s/_headrace/ids.txt").unlink()
    with pytest.raises(SinkError, match=said):
        sink.write(part(ids, window=1))
    assert_holds(sink, part([1, 2, 3]))


def test_vectors_of_another_card_are_refused_or_replaced(tmp_path: Path) -> None:
    opened(tmp_path / "s").write(part([1, 2, 3]))
    other = ParquetSink(tmp_path / "s")
    with pytest.raises(CardMismatch, match="dtype is 'f32', this job has 'i8'"):
        other.open(card("i8"), replace=False)
    (tmp_path / "s/_headrace/card.json").unlink()
    with pytest.raises(CardMismatch, match="dtype is 'f32', this job has 'i8'"):
        other.open(card("i8"), replace=False)
    other.open(card("i8"), replace=True)
    assert other.count() == 0
    new = part(["now", "strings"], of=card("i8"))
    other.write(new)
    other.open(card("i8", model="another name"), replace=True)
    assert_holds(other, new)


def test_a_card_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    opened(tmp_path / "s")
    (tmp_path / "s/_headrace/card.json").write_text("{")
    with pytest.raises(SinkError, match="the card beside the vectors cannot be read"):
        opened(tmp_path / "s")


def test_files_of_another_program_are_left_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "corpus.parquet")
    with pytest.raises(SinkError, match=r"holds corpus\.parquet, which is no file of a bulk job"):
        ParquetSink(tmp_path).open(CARD, replace=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"file.*(EEXIST|ENOTDIR|is a file)"):
        ParquetSink(tmp_path / "file").open(CARD, replace=False)


@pytest.mark.parametrize("damage", ["cut", "a bit", "empty", "no Parquet"])
def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path: Path, damage: str) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part(range(1000)))
    sink.write(part(range(1000, 1010), window=1))
    file = tmp_path / "s/part-00000-000000.parquet"
    whole = bytearray(file.read_bytes())
    if damage == "a bit":
        whole[len(whole) // 2] ^= 1
    file.write_bytes(bytes({"cut": whole[:-50], "a bit": whole, "empty": b"", "no Parquet": b"x" * 999}[damage]))
    for other in (sink, opened(tmp_path / "s")):
        assert other.lookup(range(1010)).keys() == set(range(1000, 1010))
    sink.write(part(range(1000)))
    assert_holds(sink, part(range(1000)), part(range(1000, 1010), window=1))
