"""Small random models of transformers on disk, and the rows that transformers computes with them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from headrace_engine import Engine, EngineConfig, pack

from .checkpoints import TOKENIZER, write, write_pooling

Ids = npt.NDArray[np.uint32]


def scatter(model: Any) -> Any:
    """Make a model's norms and biases non-trivial, so that one forgotten would be seen."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model.train(mode=False)


def save(model: Any, path: Path, max_shard_size: str = "1GB") -> Any:
    """Save a model, scattered, as a sentence-transformers checkpoint with mean pooling."""
    scatter(model).save_pretrained(path, max_shard_size=max_shard_size)
    write(path / "tokenizer.json", TOKENIZER)
    write_pooling(path, embedding_dimension=model.config.hidden_size, pooling_mode="mean")
    return model


@torch.inference_mode()
def rows_alone(model: Any, sequences: Sequence[Ids], segments: Sequence[Ids] | None = None) -> npt.NDArray[Any]:
    """The mean row of each sequence, which transformers is given alone."""
    segment_inputs = [{"token_type_ids": _batch_of_one(ids)} for ids in segments] if segments else [{}] * len(sequences)
    inputs = zip(sequences, segment_inputs, strict=True)
    hidden = [model(input_ids=_batch_of_one(ids), **rest).last_hidden_state[0] for ids, rest in inputs]
    return np.stack([rows.mean(0).numpy() for rows in hidden])


@torch.inference_mode()
def rows_padded(model: Any, sequences: Sequence[Ids]) -> npt.NDArray[Any]:
    """The mean row of each sequence, which transformers is given in one batch padded on the right."""
    longest = max(ids.size for ids in sequences)
    padded = np.stack([np.pad(ids.astype(np.int64), (0, longest - ids.size)) for ids in sequences])
    mask = torch.tensor([[index < ids.size for index in range(longest)] for ids in sequences]).long()
    hidden = model(input_ids=torch.from_numpy(padded), attention_mask=mask).last_hidden_state
    rows: npt.NDArray[Any] = ((hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)).numpy()
    return rows


def _batch_of_one(ids: Ids) -> torch.Tensor:
    return torch.from_numpy(ids.astype(np.int64))[None]


def engine_rows(
    path: Path,
    sequences: Sequence[Ids],
    segments: Sequence[Ids] | None = None,
    dtype: Literal["float32", "float16", "bfloat16"] = "float32",
) -> npt.NDArray[Any]:
    """The engine's rows for one ragged batch."""
    return Engine.load(path, EngineConfig(dtype=dtype)).step(pack(sequences, segments)).numpy()
