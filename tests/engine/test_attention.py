import pytest
import torch
from headrace_engine import pack
from headrace_engine.attention.cpu import CpuBackend

from .vectors import random_ids


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize(
    "lengths", [[1], [5, 3, 9], [20] * 5, [31] * 4 + [31], [64] * 4, [8, 40, 40, 40, 40, 8, 130, 2, 130]]
)
def test_tokens_attend_to_their_own_sequence_only(lengths: list[int], dtype: torch.dtype, tolerance: float) -> None:
    batch = pack([random_ids(0, length, 9) for length in lengths])
    generator = torch.Generator().manual_seed(5)
    query, key, value = torch.randn(batch.num_tokens, 3, 2, 32, generator=generator).to(dtype).unbind(1)
    attended = CpuBackend().plan(batch).run(query, key, value)
    assert attended.is_contiguous()
    assert attended.dtype == dtype
    torch.testing.assert_close(
        attended.float(), reference(query, key, value, batch.cu_seqlens), atol=tolerance, rtol=tolerance
    )


def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Attention by its definition, one sequence at a time, in float32."""
    sizes = cu_seqlens.diff().tolist()
    pieces = zip(*(torch.split(rows.float(), sizes) for rows in (query, key, value)), strict=True)
    return torch.cat(
        [
            torch.einsum("hqk,khd->qhd", torch.softmax(torch.einsum("qhd,khd->hqk", q, k) / 32**0.5, -1), v)
            for q, k, v in pieces
        ]
    )
