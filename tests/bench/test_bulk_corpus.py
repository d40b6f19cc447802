"""The corpus of the bulk bench, the vectors that stand in for a model's, and the checker of a sink."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bulk import checker, corpus
from bulk.corpus import Corpus
from bulk.hashed import Hashed
from bulk.oracle import Oracle
from bulk.stand_in_engine import StandInEngine
from economics import processes
from headrace import Client, local
from headrace_engine import Engine, pack
from numpy.typing import NDArray

DOCUMENTS, BAD = 500, 0.02


def vocabulary(engine: Engine) -> Path:
    return engine.checkpoint.transformer / "tokenizer.json"


def all_of(folder: Path) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for ids, texts in corpus.read(folder):
        found.update(zip(ids.tolist(), texts, strict=True))
    return found


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_corpus_is_the_same_each_time_and_another_with_another_seed(
    form: Literal["parquet", "jsonl"], minilm: Engine, tmp_path: Path
) -> None:
    for name, seed in (("first", 3), ("second", 3), ("third", 4)):
        Corpus(documents=DOCUMENTS, seed=seed, bad=BAD, form=form).write(tmp_path / name, vocabulary(minilm))
    first, second, third = (all_of(tmp_path / name) for name in ("first", "second", "third"))
    assert first == second != third
    assert list(first) == list(range(DOCUMENTS))
    texts = [text for text in first.values() if text is not None]
    assert 0 < len(set(texts)) < len(texts) < DOCUMENTS
    assert all(5 <= len(text.split()) <= 40 for text in texts)


def test_both_forms_hold_the_same_rows(minilm: Engine, tmp_path: Path) -> None:
    for form in ("parquet", "jsonl"):
        written: Literal["parquet", "jsonl"] = "parquet" if form == "parquet" else "jsonl"
        Corpus(documents=DOCUMENTS, bad=BAD, form=written).write(tmp_path / form, vocabulary(minilm))
    assert all_of(tmp_path / "parquet") == all_of(tmp_path / "jsonl")


def test_a_corpus_with_bad_rows_has_some_of_each_kind(minilm: Engine, tmp_path: Path) -> None:
    Corpus(documents=8, bad=0.001, form="jsonl").write(tmp_path / "few", vocabulary(minilm))
    lines = b"".join(file.read_bytes() for file in (tmp_path / "few").iterdir())
    assert b"null" in lines
    assert b"\xff" in lines


def test_a_row_is_the_same_in_any_batch_and_another_for_other_tokens() -> None:
    hashed = Hashed(384)
    sequences = [[101, 7, 8, 102], [101, 8, 7, 102], [101], [102]]
    bounds = np.concatenate(([0], np.cumsum([len(each) for each in sequences])))
    together = hashed.rows(np.concatenate(sequences), bounds)
    for row, sequence in zip(together, sequences, strict=True):
        assert np.array_equal(row, hashed.rows(np.array(sequence), np.array([0, len(sequence)]))[0])
    assert len(np.unique(together, axis=0)) == len(sequences)
    assert np.abs(together).max() <= 1
    # No two dimensions go together, or a mixed-up vector might pass for its neighbour.
    many = hashed.rows(np.arange(2000), np.arange(2001))
    assert np.abs(np.corrcoef(many[:, :20].T) - np.eye(20)).max() < 0.1


def test_the_engine_gives_rows_in_the_order_that_was_packed(minilm: Engine) -> None:
    engine = StandInEngine(minilm.checkpoint)
    sequences = [np.arange(100, 100 + length, dtype=np.uint32) for length in (9, 2, 30)]
    rows = engine.step(pack(sequences)).numpy()
    for row, sequence in zip(rows, sequences, strict=True):
        assert np.array_equal(row, engine.step(pack([sequence])).numpy()[0])


async def test_a_worker_answers_what_the_oracle_says(minilm: Engine) -> None:
    model = str(minilm.checkpoint.path)
    texts = ["water to the wheel", "", "a mill by the river"]
    with local.server() as server, processes.worker("bulk.stand_in", model, server.url):
        async with await Client.connect(server.url) as client:
            vectors = await client.embed(texts, priority="batch")
    assert np.array_equal(np.asarray(vectors), Oracle(model).vectors(texts))


def vectors_of(texts: Sequence[str]) -> NDArray[Any]:
    return np.array([[len(text), text.count("e")] for text in texts], np.float32).reshape(len(texts), 2)


def write_part(file: Path, ids: Sequence[int], vectors: NDArray[Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    flat = pa.array(vectors.ravel(), pa.float32())
    table = pa.table({"id": pa.array(ids, pa.int64()), "vector": pa.FixedSizeListArray.from_arrays(flat, 2)})
    pq.write_table(table, file)


@pytest.fixture
def written(minilm: Engine, tmp_path: Path) -> tuple[Path, Path, dict[int, str]]:
    """A corpus, a sink with all of it in two parts, and the texts."""
    documents, sink = tmp_path / "documents", tmp_path / "sink"
    Corpus(documents=DOCUMENTS, bad=BAD).write(documents, vocabulary(minilm))
    rows = all_of(documents)
    good = {number: text for number, text in rows.items() if text is not None}
    for name, ids in (("part-0", list(good)[::2]), ("part-1", list(good)[1::2])):
        write_part(sink / f"{name}.parquet", ids, vectors_of([good[number] for number in ids]))
    errors = sink / "_headrace" / "job" / "errors.jsonl"
    errors.parent.mkdir(parents=True)
    errors.write_text("".join(f"{json.dumps({'id': number})}\n" for number, text in rows.items() if text is None))
    return documents, sink, good


def test_the_checker_finds_a_whole_sink_whole(written: tuple[Path, Path, dict[int, str]]) -> None:
    documents, sink, good = written
    found = checker.check(documents, sink, "job", vectors_of)
    assert found.is_whole, found.examples
    assert (found.expected, found.bad) == (len(good), DOCUMENTS - len(good))


def test_the_checker_finds_what_is_missing_doubled_strange_and_wrong(
    written: tuple[Path, Path, dict[int, str]],
) -> None:
    documents, sink, good = written
    ids = list(good)
    kept = ids[4::2]
    vectors = vectors_of([good[number] for number in kept])
    vectors[0, 1] += 1
    vectors[1, 0] = np.nan
    write_part(sink / "part-0.parquet", kept, vectors)
    write_part(sink / "part-2.parquet", [ids[1], DOCUMENTS], vectors_of([good[ids[1]], "?"]))
    found = checker.check(documents, sink, "job", vectors_of)
    assert not found.is_whole
    assert (found.missing, found.doubled, found.strange, found.wrong) == (2, 1, 1, 2)
    assert found.examples[0] == f"missing: {ids[0]}, {ids[2]}"


def test_the_checker_finds_bad_rows_that_nobody_told_of(written: tuple[Path, Path, dict[int, str]]) -> None:
    documents, sink, good = written
    (errors,) = sink.rglob("errors.jsonl")
    lines = errors.read_text().splitlines(keepends=True)
    errors.write_text("".join((*lines[1:], lines[1], f'{{"id": {next(iter(good))}}}\n')))
    found = checker.check(documents, sink, "job", vectors_of)
    assert (found.unreported, found.overreported) == (2, 1)
    assert not found.is_whole
