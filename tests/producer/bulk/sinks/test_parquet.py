"""A folder of Parquet files as a sink."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from headrace.bulk.sinks.parquet import ParquetSink
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
