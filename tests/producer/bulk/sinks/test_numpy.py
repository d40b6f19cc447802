"""A folder of NumPy arrays as a sink."""

import json
from pathlib import Path

import numpy as np
import pytest
from headrace.bulk.sinks.numpy import NumpySink
from headrace.errors import SinkError
from headrace_contracts.messages import Dtype

from ..parts import CARD, assert_holds, card, part


def opened(path: Path) -> NumpySink:
    sink = NumpySink(path)
    sink.open(CARD, replace=False)
    return sink


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "b1"])
def test_a_finished_folder_is_one_array_in_the_order_of_the_corpus(tmp_path: Path, dtype: Dtype) -> None:
    sink = NumpySink(tmp_path / "s")
    sink.open(card(dtype), replace=False)
    parts = [part(range(n * 10, n * 10 + 5), shard=n, of=card(dtype), seed=n) for n in (1, 0, 2)]
    for each in parts:
        sink.write(each)
    assert_holds(sink, *parts)
    for _ in range(2):
        sink.finish([each.name for each in parts])
        parts.sort(key=lambda each: each.name)
        joined = np.load(tmp_path / "s/vectors.npy", mmap_mode="r")
        assert joined.tobytes() == np.concatenate([each.vectors for each in parts]).tobytes()
        assert np.load(tmp_path / "s/ids.npy").tolist() == [one for each in parts for one in each.ids]
    assert json.loads((tmp_path / "s/card.json").read_text()) == json.loads(card(dtype).to_json())
    assert not list((tmp_path / "s").rglob("*.unfinished"))
    assert_holds(sink, *parts)


def test_strings_are_lines_of_json(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    odd = ["é\n\"'", "\0", "", "x" * 10_000, "\u2028 \U0001f600"]
    sink.write(part(odd, with_texts=True))
    assert_holds(sink, part(odd))
    sink.finish([part(odd).name])
    assert [json.loads(line) for line in (tmp_path / "s/ids.jsonl").read_bytes().splitlines()] == odd
    texts = (tmp_path / "s/texts.jsonl").read_bytes().splitlines()
    assert [json.loads(line) for line in texts] == [f"text 0 of {one}" for one in odd]
    assert not (tmp_path / "s/ids.npy").exists()


def test_a_job_without_a_vector_leaves_an_empty_array(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part([]))
    sink.finish([part([]).name])
    assert np.load(tmp_path / "s/vectors.npy").shape == (0, CARD.dim)
    assert np.load(tmp_path / "s/ids.npy").shape == (0,)
    assert not (tmp_path / "s/texts.jsonl").exists()


def test_a_damaged_part_is_not_joined(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part(range(5)))
    sink.write(part(range(5, 9), window=1))
    sink.finish([part([]).name, part([], window=1).name])
    file = tmp_path / "s/_headrace/numpy.parts/part-00000-000000.npz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(SinkError, match="is damaged: `headrace job verify`"):
        sink.finish([part([]).name, part([], window=1).name])
    assert not sink.lookup([0])
    sink.write(part(range(5)))
    sink.finish([part([]).name, part([], window=1).name])
    assert len(np.load(tmp_path / "s/vectors.npy")) == 9


def test_a_folder_that_lost_its_own_files_is_known_by_its_card(tmp_path: Path) -> None:
    sink = opened(tmp_path / "s")
    sink.write(part(range(5)))
    sink.finish([part([]).name])
    (tmp_path / "s/_headrace").rename(tmp_path / "elsewhere")
    opened(tmp_path / "s")
    with pytest.raises(SinkError, match="dim is 24, this job has 12"):
        NumpySink(tmp_path / "s").open(card(dim=12), replace=False)


def test_arrays_of_another_program_are_left_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.zeros(3))
    with pytest.raises(SinkError, match=r"vectors\.npy is there, and no card\.json"):
        NumpySink(tmp_path).open(CARD, replace=True)
    assert np.load(tmp_path / "vectors.npy").shape == (3,)
