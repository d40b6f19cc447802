"""Sinks as they are written on a command line."""

import sys
from pathlib import Path

import pytest
from headrace.bulk.sinks.lance import LanceSink
from headrace.bulk.sinks.numpy import NumpySink
from headrace.bulk.sinks.open_sink import SinkKind, open_sink
from headrace.bulk.sinks.parquet import ParquetSink
from headrace.errors import InputError, SinkError


@pytest.mark.parametrize(
    ("what", "kind", "sink", "name"),
    [
        ("parquet:out/v", None, ParquetSink, "parquet:{}/out/v"),
        ("v.parquet", None, ParquetSink, "parquet:{}/v.parquet"),
        ("v.parquet/", None, ParquetSink, "parquet:{}/v.parquet"),
        ("out v", "parquet", ParquetSink, "parquet:{}/out v"),
        ("parquet:out", "parquet", ParquetSink, "parquet:{}/out"),
        ("a:b.parquet", None, ParquetSink, "parquet:{}/a:b.parquet"),
        ("numpy:v", None, NumpySink, "numpy:{}/v"),
        ("v.npy", None, NumpySink, "numpy:{}/v.npy"),
        ("lance:db#articles", None, LanceSink, "lance:{}/db#articles"),
        ("db/articles.lance", None, LanceSink, "lance:{}/db#articles"),
        ("lance:articles.lance", None, LanceSink, "lance:{}#articles"),
        ("db#t", "lance", LanceSink, "lance:{}/db#t"),
    ],
)
def test_a_sink_is_what_its_spelling_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, kind: SinkKind | None, sink: type, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = open_sink(what, kind=kind)
    assert isinstance(opened, sink)
    assert opened.name == name.format(tmp_path.resolve())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("", "names nothing: write parquet:FOLDER"),
        ("a\0b", "names nothing"),
        ("vectors", "does not tell what it is: write parquet:FOLDER"),
        ("vectors.csv", "does not tell what it is"),
        ("parquet:", "names no folder"),
        ("parquet:a#b", "a folder has no table"),
        ("parquet:s3://bucket/x", "only folders of this machine"),
        ("s3://bucket/x.parquet", "there is no kind 's3'"),
        ("parkett:vectors", "there is no kind 'parkett'"),
        ("lance:db", "names no table: write it behind a #, as in lance:vectors#articles"),
        ("lance:db#", "names no table"),
        ("lance:#t", "names no folder"),
        ("qdrant:place", "lacks a name behind a #"),
        ("http://localhost:6333", "does not tell what it is"),
        ("postgresql://me:secret@host/db", "lacks a name behind a #: write it as in postgresql"),
        ("postgres:host#t", "is no URL of a database"),
    ],
)
def test_what_is_no_sink_is_told_with_what_would_be(what: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        open_sink(what)
    assert "secret" not in str(raised.value)


def test_two_kinds_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="is of kind parquet, not numpy: leave one of the two away"):
        open_sink("parquet:x", kind="numpy")


def test_a_name_that_the_database_refuses_is_told() -> None:
    with pytest.raises(SinkError, match="table 'my table': a name has letters"):
        open_sink("lance:db#my table")


@pytest.mark.parametrize(
    ("what", "library", "extra"), [("parquet:x", "pyarrow", "bulk"), ("lance:x#t", "lancedb", "lancedb")]
)
def test_an_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, what: str, library: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.startswith(("headrace.bulk.sinks.", f"{library}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"needs {library}: pip install 'headrace\[{extra}\]'"):
        open_sink(what)
