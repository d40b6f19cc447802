"""Attention by its definition, and how far a backend is from it.

It knows what `AttentionShape` means and nothing of speed: one sequence at a time, in float64, on any device.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.batch import RaggedBatch


def attend_by_definition(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens: npt.NDArray[np.int32],
    shape: AttentionShape,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute what `Attention.run` promises: softmax(scale · Q Kᵀ + bias) V over what each token may see.

    Args:
        query: [T, num_heads, head_dim].
        key: [T, num_kv_heads, head_dim].
        value: The same.
        cu_seqlens: [N+1], on the host.
        shape: What a token may see, and the scale.
        bias: [num_heads, L, L] with L at least the longest sequence, or None.

    Returns:
        [T, num_heads, head_dim] float64.
    """
    pieces = [
        _attend(query[start:stop], key[start:stop], value[start:stop], shape, bias)
        for start, stop in pairwise(cu_seqlens.tolist())
    ]
    return torch.cat(pieces)


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, shape: AttentionShape, bias: torch.Tensor | None
) -> torch.Tensor:
    length = len(query)
    key, value = (rows.double().repeat_interleave(shape.num_heads // shape.num_kv_heads, 1) for rows in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query.double(), key) * shape.softmax_scale
    if bias is not None:
        scores = scores + bias[:, :length, :length].double()
    scores = scores.masked_fill(~visible(shape, length).to(scores.device), -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), value)


def visible(shape: AttentionShape, length: int) -> torch.Tensor:
    """Say which token sees which: [length, length] bool, a row for each token that looks."""
    ahead = torch.arange(length) - torch.arange(length)[:, None]
    seen = torch.ones(length, length, dtype=torch.bool)
    if shape.causal:
        seen &= ahead <= 0
    if shape.window is not None:
        seen &= ahead.abs() <= shape.window
    return seen


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a layer hands to attention for one batch.

    Attributes:
        query: [T, num_heads, head_dim].
        key: [T, num_kv_heads, head_dim].
        value: The same.
        bias: [num_heads, L, L] where the shape has one.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None

    @classmethod
    def draw(cls, batch: RaggedBatch, shape: AttentionShape, dtype: torch.dtype, seed: int = 0) -> "Inputs":
        """Draw normal ones on the batch's device: views of one projection, as layers make them, so not contiguous."""
        device = batch.cu_seqlens.device
        generator = torch.Generator().manual_seed(seed)
        heads = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
        rows = torch.randn(batch.num_tokens, sum(heads), shape.head_dim, generator=generator)
        query, key, value = rows.to(device, dtype).split(heads, 1)
        # Longer than need be: a backend has to cut it.
        longest = batch.max_seqlen + 3
        bias = torch.randn(shape.num_heads, longest, longest, generator=generator) if shape.has_position_bias else None
        return cls(query, key, value, None if bias is None else bias.to(device, dtype))


def deviation(attention: Attention, batch: RaggedBatch, shape: AttentionShape, inputs: Inputs) -> float:
    """Run a plan and say how far it is from the definition.

    Args:
        attention: Planned for `batch`.
        batch: On any device.
        shape: One of the backend's.
        inputs: Of the same batch and shape.

    Returns:
        The largest difference of any element, infinite where the plan gives what is no number.

    Raises:
        ValueError: The result has another shape, layout or dtype than `Attention.run` promises.
    """
    attended = attention.run(inputs.query, inputs.key, inputs.value, shape, inputs.bias)
    expected = attend_by_definition(inputs.query, inputs.key, inputs.value, batch.host_cu_seqlens, shape, inputs.bias)
    if attended.shape != expected.shape or attended.dtype != inputs.query.dtype or not attended.is_contiguous():
        message = (
            f"attention gave {list(attended.shape)} {attended.dtype}, contiguous={attended.is_contiguous()}: it must "
            f"give {list(expected.shape)} {inputs.query.dtype}, contiguous"
        )
        raise ValueError(message)
    return (attended.double() - expected).abs().nan_to_num(torch.inf).max().item()
