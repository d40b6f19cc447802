"""Embeddings, means, and whole layers of BERT by the compiled kernels give what torch gives piece by piece."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.reference import attend_by_definition
from headrace_engine.native.calls import Kernels, LayerParts

from .native_kernels import error
from .native_sources import needs_compiler

pytestmark = needs_compiler

WIDTH, INNER, HEADS = 96, 160, 3
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def offsets(*lengths: int) -> torch.Tensor:
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("width", [7, 31, 96, 200])
@pytest.mark.parametrize("tables", [(True, True, True), (True, True, False), (True, False, True), (True, False, False)])
def test_embeddings_are_added_up_and_normalised(
    kernels: Kernels, dtype: torch.dtype, has_bias: bool, width: int, tables: tuple[bool, ...]
) -> None:
    ids = [torch.randint(0, rows, (300,), generator=torch.Generator().manual_seed(rows)) for rows in (50, 40, 2)]
    lookups = [
        (draw(int(each.max()) + 1, width, seed=index).to(dtype), each) if there else (None, None)
        for index, (each, there) in enumerate(zip(ids, tables, strict=True))
    ]
    weight, bias = draw(width, seed=7).to(dtype), draw(width, seed=8).to(dtype) if has_bias else None
    found = kernels.embed(lookups, weight, bias, 1e-12)
    total = sum(table.double()[each] for table, each in lookups if table is not None and each is not None)
    assert isinstance(total, torch.Tensor)
    expected = F.layer_norm(total, (width,), weight.double(), None if bias is None else bias.double(), 1e-12)
    assert found.dtype == dtype
    assert torch.allclose(found.double(), expected, atol=4 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_without_ids_every_token_takes_the_first_row(kernels: Kernels) -> None:
    tokens, segments, weight = draw(9, 64), draw(2, 64, seed=1), torch.ones(64)
    ids = torch.tensor([3, 8, 0])
    first = kernels.embed(((tokens, ids), (None, None), (segments, None)), weight, None, 1e-12)
    named = kernels.embed(((tokens, ids), (None, None), (segments, torch.zeros_like(ids))), weight, None, 1e-12)
    assert torch.equal(first, named)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [1, 100, 128, 384])
@pytest.mark.parametrize("skips", [None, (0, 2, 1, 299)])
def test_means_are_those_of_the_rows_that_are_not_left_out(
    kernels: Kernels, dtype: torch.dtype, width: int, skips: tuple[int, ...] | None
) -> None:
    lengths = (1, 3, 2, 300)
    rows = draw(sum(lengths), width).to(dtype)
    found = kernels.mean(rows, offsets(*lengths), None if skips is None else torch.tensor(skips, dtype=torch.int32))
    left = zip(rows.double().split(lengths), skips or (0,) * 4, strict=True)
    expected = torch.stack([each[skip:].mean(0) for each, skip in left])
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, atol=1e-6)


def test_a_mean_has_the_same_bits_alone_and_with_any_threads(kernels: Kernels) -> None:
    lengths = (1, 40, 3, 700)
    rows = draw(sum(lengths), 384)
    together = kernels.mean(rows, offsets(*lengths))
    alone = [kernels.mean(each, offsets(len(each))) for each in rows.split(lengths)]
    assert torch.equal(together, torch.cat(alone))


def parts(
    kernels: Kernels, activation: str = "gelu", dtype: torch.dtype = torch.float32, *, has_bias: bool = True
) -> tuple[LayerParts, dict[str, torch.Tensor]]:
    """A layer for the kernels, and its tensors as they are stored."""
    sizes = {"qkv": (3 * WIDTH, WIDTH), "attended": (WIDTH, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER)}
    stored = {name: draw(*size, seed=len(name)) / size[1] ** 0.5 for name, size in sizes.items()}
    stored |= {f"{name} bias": draw(size[0], seed=size[0]) for name, size in sizes.items()}
    stored |= {name: 1 + 0.1 * draw(WIDTH, seed=index) for index, name in enumerate(("attended_norm", "norm"))}
    stored |= {f"{name} bias": draw(WIDTH, seed=9) for name in ("attended_norm", "norm")}
    linears = {
        name: (kernels.pack(stored[name], dtype), stored[f"{name} bias"] if has_bias else None) for name in sizes
    }
    norms = {name: (stored[name], stored[f"{name} bias"]) for name in ("attended_norm", "norm")}
    numbers = {"width": WIDTH, "num_heads": HEADS, "inner": INNER, "scale": 0.2, "attended_eps": 1e-3, "eps": 1e-12}
    return LayerParts(**linears, **norms, **numbers, activation=activation), stored  # type: ignore[arg-type]


def by_torch(
    rows: torch.Tensor, lengths: tuple[int, ...], stored: dict[str, torch.Tensor], *, has_bias: bool
) -> torch.Tensor:
    at = {name: tensor.double() for name, tensor in stored.items()}

    def linear(name: str, given: torch.Tensor) -> torch.Tensor:
        return F.linear(given, at[name], at[f"{name} bias"] if has_bias else None)

    def norm(name: str, given: torch.Tensor, eps: float) -> torch.Tensor:
        return F.layer_norm(given, (WIDTH,), at[name], at[f"{name} bias"], eps)

    rows = rows.double()
    query, key, value = linear("qkv", rows).view(len(rows), 3, HEADS, WIDTH // HEADS).unbind(1)
    shape = AttentionShape(num_heads=HEADS, num_kv_heads=HEADS, head_dim=WIDTH // HEADS, scale=0.2)
    attended = attend_by_definition(query, key, value, offsets(*lengths).numpy(), shape).view(len(rows), WIDTH)
    rows = norm("attended_norm", rows + linear("attended", attended), 1e-3)
    return norm("norm", rows + linear("down", F.gelu(linear("up", rows))), 1e-12)


@pytest.mark.parametrize(("dtype", "largest_error"), [(torch.float32, 2e-6), (torch.float16, 4e-3)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("lengths", [(1,), (12,), (3, 1, 40), (130, 257)])
def test_a_layer_in_one_call_is_the_layer_piece_by_piece(
    kernels: Kernels, lengths: tuple[int, ...], has_bias: bool, dtype: torch.dtype, largest_error: float
) -> None:
    described, stored = parts(kernels, dtype=dtype, has_bias=has_bias)
    rows = draw(sum(lengths), WIDTH, seed=3)
    expected = by_torch(rows, lengths, stored, has_bias=has_bias)
    found = kernels.layers([described])(rows, offsets(*lengths))
    assert found is rows  # overwritten
    assert error(found, expected) <= largest_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_layers_run_one_after_the_other_with_the_same_bits_in_any_batch(kernels: Kernels, dtype: torch.dtype) -> None:
    first, _ = parts(kernels, dtype=dtype)
    second = replace(parts(kernels, "relu", dtype)[0], inner=INNER)
    rows, lengths = draw(90, WIDTH), (10, 30, 50)
    apart = rows.clone()
    for each in (first, second):
        kernels.layers([each])(apart, offsets(*lengths))
    alone = torch.cat(
        [kernels.layers([first, second])(each.clone(), offsets(len(each))) for each in rows.split(lengths)]
    )
    assert torch.equal(kernels.layers([first, second])(rows, offsets(*lengths)), apart)
    assert torch.equal(apart, alone)
