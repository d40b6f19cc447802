"""The engine alone, in this process: token ids in, rows out, for batches of fixed shapes.

It knows how to time a step. It knows no NATS and no texts.
"""

from ceiling import Product, flop
from headrace_engine import Engine, pack
from headrace_engine.models.bert import BertConfig
from result import Steps
from timing import Spread, repeat
from workloads import SHAPES


def measure(engine: Engine, encoder: BertConfig, product: Product, seconds: float) -> tuple[Steps, ...]:
    """Step the same batch again and again, for each shape.

    Args:
        engine: Loaded, for sequences as long as those of all shapes.
        encoder: What it loaded.
        product: Is sampled between the shapes, and says what the limit is.
        seconds: How long to measure each.
    """
    found = {}
    for shape in SHAPES:
        product.sample(seconds / 4)
        batch = pack(shape.sequences(engine.checkpoint.vocab_size))
        found[shape] = repeat(lambda batch=batch: engine.step(batch).numpy(), seconds)  # type: ignore[misc]
    flop_per_s = product.ceiling().gflops * 1e9
    return tuple(
        _steps(shape.name, shape.lengths, spread, flop(encoder, shape.lengths), flop_per_s)
        for shape, spread in found.items()
    )


def _steps(name: str, lengths: tuple[int, ...], step: Spread, operations: float, flop_per_s: float) -> Steps:
    return Steps(
        shape=name,
        sequences=len(lengths),
        tokens=sum(lengths),
        step=step,
        tokens_per_s=sum(lengths) / step.p50_ms * 1000,
        flop=operations,
        limit_share=operations / flop_per_s / step.p50_ms * 1000,
    )
