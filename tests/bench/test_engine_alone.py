"""The engine alone takes every shape, and the model's own files stay as they are."""

from pathlib import Path

from engine_alone import Steps, load
from headrace_engine import Engine, pack
from workloads import SHAPES


def test_a_model_that_states_less_takes_512_tokens(minilm: Engine) -> None:
    own_limit = minilm.checkpoint.path / "sentence_bert_config.json"
    before = own_limit.read_bytes()
    engine = load(str(minilm.checkpoint.path), "float32", 512)
    assert (minilm.checkpoint.max_length, engine.checkpoint.max_length) == (256, 512)
    (longest,) = (shape for shape in SHAPES if shape.lengths == (512,))
    assert engine.step(pack(longest.sequences(engine.checkpoint.vocab_size))).numpy().shape == (1, 384)
    assert own_limit.read_bytes() == before


def test_the_links_are_gone_after_loading(minilm: Engine) -> None:
    engine = load(str(minilm.checkpoint.path), "float32", 512)
    assert not Path(engine.checkpoint.path).exists()


def test_throughput_is_tokens_over_the_median_step(minilm: Engine) -> None:
    steps = Steps.measure(minilm, SHAPES[0], 0.001)
    assert (steps.shape, steps.sequences, steps.tokens) == ("10 tok", 1, 10)
    assert steps.tokens_per_s == 10 / steps.step.p50_ms * 1000
