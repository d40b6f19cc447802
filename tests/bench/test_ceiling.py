"""The ceiling counts what the model's linear layers do."""

import pytest
import torch
from ceiling import Product, dense_flop, formats, ways
from headrace_engine import Engine, EngineConfig
from headrace_engine.models.bert import BertConfig
from headrace_engine.precision import compute_dtype


def shape_of(engine: Engine) -> BertConfig:
    assert isinstance(engine.checkpoint.encoder, BertConfig)
    return engine.checkpoint.encoder


def test_a_token_of_the_demo_model_takes_21_mflop(minilm: Engine) -> None:
    assert dense_flop(shape_of(minilm)) == 21_233_664


def test_there_is_a_ceiling_of_what_the_engine_computes_in_here_and_of_what_peers_do() -> None:
    ours = compute_dtype(EngineConfig(), torch.device("cpu"))
    assert {ours, torch.float32, torch.bfloat16} <= set(formats())


@pytest.mark.parametrize("dtype", formats())
def test_a_ceiling_is_the_product_in_its_format(minilm: Engine, dtype: torch.dtype) -> None:
    shape = shape_of(minilm)
    product = Product(shape, dtype)
    product.sample(0.001)
    ceiling = product.ceiling()
    assert ceiling.dtype == product.dtype == str(dtype).removeprefix("torch.")
    assert ceiling.product in {(2048, 384, 1536), (2048, 1536, 384), (2048, 384, 1152), (1024, 1024, 1024)}
    assert ceiling.tokens_per_s * dense_flop(shape) == pytest.approx(ceiling.gflops * 1e9)


@pytest.mark.parametrize("dtype", formats())
@torch.inference_mode()
def test_all_ways_to_multiply_come_to_the_same(dtype: torch.dtype) -> None:
    first, *others = [way() for way in ways(24, 64, 32, dtype)]
    assert first.shape == (24, 32)
    for other in others:
        # Entries are about 8; a short sum of float16 may be off by a part in five hundred.
        assert torch.allclose(first.float(), other.float(), atol=0.1)
