"""The ceiling counts what the model's linear layers do."""

import pytest
import torch
from ceiling import Product, dense_flop
from headrace_engine import Engine
from headrace_engine.models.bert import BertConfig


def shape_of(engine: Engine) -> BertConfig:
    assert isinstance(engine.checkpoint.encoder, BertConfig)
    return engine.checkpoint.encoder


def test_a_token_of_the_demo_model_takes_21_mflop(minilm: Engine) -> None:
    assert dense_flop(shape_of(minilm)) == 21_233_664


def test_a_ceiling_is_the_product_in_its_format(minilm: Engine) -> None:
    shape = shape_of(minilm)
    product = Product(shape, torch.float32)
    product.sample(0.001)
    ceiling = product.ceiling()
    assert ceiling.dtype == "float32"
    assert ceiling.product in {(2048, 384, 1536), (2048, 1536, 384), (2048, 384, 1152), (1024, 1024, 1024)}
    assert ceiling.tokens_per_s * dense_flop(shape) == pytest.approx(ceiling.gflops * 1e9)
