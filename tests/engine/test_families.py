"""What every model family must do, against transformers, on small random models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, pack
from headrace_engine.native.calls import kernels
from headrace_engine.native.library import Missing
from safetensors.torch import load_file, save_file

from .checkpoints import change_tensors
from .families import FAMILIES, PAD_TOKEN_ID, VOCAB_SIZE
from .oracle import Ids, engine_rows, rows_alone, save
from .vectors import cosines

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True, slots=True)
class Family:
    """A checkpoint on disk, with the model that transformers saved there.

    Attributes:
        path: The checkpoint, with mean pooling.
        model: Of transformers.
        sequences: Ids of one token up to the longest sequence, in no order, some as long as others.
        segments: Of each token.
    """

    path: Path
    model: Any
    sequences: list[Ids]
    segments: list[Ids] | None

    @property
    def file(self) -> Path:
        return self.path / "model.safetensors"


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda build: build.__name__)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("family")
    model = save(request.param(), path)
    checkpoint = Engine.load(path).checkpoint
    lengths = (9, 1, 40, 2, 17, 40, checkpoint.max_length, 3, 33, 40, 40, 31)
    sequences = [ids_without_pad(seed, length) for seed, length in enumerate(lengths)]
    segments = [(np.arange(ids.size) > ids.size // 2).astype(np.uint32) for ids in sequences]
    return Family(path, model, sequences, segments if checkpoint.num_segments > 1 else None)


def ids_without_pad(seed: int, length: int) -> Ids:
    return np.random.default_rng(seed).integers(PAD_TOKEN_ID + 1, VOCAB_SIZE, length, dtype=np.uint32)


def test_float32_rows_are_those_of_transformers(family: Family) -> None:
    rows = engine_rows(family.path, family.sequences, family.segments)
    expected = rows_alone(family.model, family.sequences, family.segments)
    assert cosines(rows, expected).min() >= 0.99999
    np.testing.assert_allclose(rows, expected, atol=2e-5)


def test_float16_rows_are_nearly_those_of_transformers(family: Family) -> None:
    if isinstance(own := kernels(), Missing):
        pytest.skip(own.reason)
    rows = engine_rows(family.path, family.sequences, family.segments, "float16")
    expected = rows_alone(family.model, family.sequences, family.segments)
    assert cosines(rows, expected).min() >= 0.9999
    assert np.linalg.norm(rows - expected) <= 0.01 * np.linalg.norm(expected)


def test_bfloat16_rows_are_within_a_thousandth_of_transformers(family: Family) -> None:
    rows = engine_rows(family.path, family.sequences, family.segments, "bfloat16")
    assert cosines(rows, rows_alone(family.model, family.sequences, family.segments)).min() >= 0.999


def test_a_ragged_batch_gives_the_rows_of_a_padded_one(family: Family) -> None:
    padded = rows_padded(family.model, family.sequences)
    assert cosines(engine_rows(family.path, family.sequences), padded).min() >= 0.99999


def test_a_sequence_has_the_same_row_alone_and_in_any_order(family: Family) -> None:
    engine = Engine.load(family.path, EngineConfig(dtype="float32"))
    together = engine.step(pack(family.sequences)).numpy()
    reversed_ = engine.step(pack(family.sequences[::-1])).numpy()
    alone = np.concatenate([engine.step(pack([sequence])).numpy() for sequence in family.sequences])
    assert cosines(together, alone).min() >= 1 - 1e-5
    assert cosines(together, reversed_[::-1]).min() >= 1 - 1e-5


def test_no_segments_are_the_first_segment(family: Family) -> None:
    first = [np.zeros_like(ids) for ids in family.sequences]
    rows = engine_rows(family.path, family.sequences, first)
    np.testing.assert_array_equal(rows, engine_rows(family.path, family.sequences))


def test_shards_give_the_rows_of_one_file(family: Family, tmp_path: Path) -> None:
    copy_of(family, tmp_path)
    (tmp_path / family.file.name).unlink()
    family.model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    np.testing.assert_array_equal(engine_rows(tmp_path, family.sequences), engine_rows(family.path, family.sequences))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tensors_may_be_stored_in_half(family: Family, tmp_path: Path, dtype: torch.dtype) -> None:
    copy_of(family, tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({name: rows.to(dtype) for name, rows in tensors.items()}))
    rows = engine_rows(tmp_path, family.sequences)
    assert cosines(rows, engine_rows(family.path, family.sequences)).min() >= 0.99


def test_names_may_carry_any_prefix_of_a_larger_model(family: Family, tmp_path: Path) -> None:
    copy_of(family, tmp_path)
    tensors = load_file(family.file)
    plain = engine_rows(family.path, family.sequences)
    for prefix in Engine.load(family.path).checkpoint.encoder.prefixes:
        save_file({f"{prefix}{name}": rows for name, rows in tensors.items()}, tmp_path / family.file.name)
        np.testing.assert_array_equal(engine_rows(tmp_path, family.sequences), plain)


def test_every_tensor_is_needed_or_known_to_change_nothing(family: Family, tmp_path: Path) -> None:
    copy_of(family, tmp_path)
    tensors = load_file(family.file)
    ignored = Engine.load(family.path).checkpoint.encoder.ignored
    needed = [name for name in tensors if not name.startswith(ignored)]
    assert len(needed) >= len(tensors) - 2
    for name in needed:
        save_file({other: rows for other, rows in tensors.items() if other != name}, tmp_path / family.file.name)
        with pytest.raises(CheckpointError, match=rf"tensor {name} is missing"):
            Engine.load(tmp_path, EngineConfig(dtype="float32"))


def test_an_unused_tensor_is_named(family: Family, tmp_path: Path) -> None:
    copy_of(family, tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({"another.weight": torch.zeros(1, 48)}))
    with pytest.raises(CheckpointError, match=r"1 tensors are not used.*another\.weight"):
        Engine.load(tmp_path)


def test_a_wrong_shape_is_named_with_both_shapes(family: Family, tmp_path: Path) -> None:
    copy_of(family, tmp_path)
    table = next(name for name, rows in load_file(family.file).items() if rows.shape == (VOCAB_SIZE, 48))
    change_tensors(tmp_path, lambda tensors: tensors.update({table: torch.zeros(VOCAB_SIZE - 1, 48)}))
    with pytest.raises(CheckpointError, match=rf"{table} has shape \[149, 48\].*asks for \[150, 48\]"):
        Engine.load(tmp_path)


def copy_of(family: Family, path: Path) -> None:
    for file in family.path.rglob("*.*"):
        target = path / file.relative_to(family.path)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.read_bytes())


@torch.inference_mode()
def rows_padded(model: Any, sequences: list[Ids]) -> npt.NDArray[Any]:
    """The mean row of each sequence in one batch, padded on the right with the family's own pad token."""
    longest = max(ids.size for ids in sequences)
    padded = [np.pad(ids.astype(np.int64), (0, longest - ids.size), constant_values=PAD_TOKEN_ID) for ids in sequences]
    mask = torch.tensor([[index < ids.size for index in range(longest)] for ids in sequences]).long()
    hidden = model(input_ids=torch.from_numpy(np.stack(padded)), attention_mask=mask).last_hidden_state
    rows: npt.NDArray[Any] = ((hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)).numpy()
    return rows
