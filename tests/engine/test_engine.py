import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from headrace_engine import BatchError, Engine, EngineConfig, pack

from .checkpoints import write
from .vectors import random_ids


@pytest.fixture
def engine(small: Path) -> Engine:
    return Engine.load(small, EngineConfig(dtype="float32"))


def test_a_step_returns_rows_that_can_be_read(engine: Engine) -> None:
    lazy = engine.step(pack([random_ids(0, length, 120) for length in (9, 2, 5)]))
    lazy.wait()
    assert lazy.done()
    rows = lazy.numpy()
    assert rows.shape == (3, 32)
    assert rows.dtype == np.float32


def test_rows_are_in_the_order_of_the_caller(engine: Engine) -> None:
    sequences = [random_ids(length, length, 120) for length in (9, 2, 5, 2)]
    rows = engine.step(pack(sequences)).numpy()
    for sequence, row in zip(sequences, rows, strict=True):
        np.testing.assert_allclose(engine.step(pack([sequence])).numpy()[0], row, atol=1e-5)


def test_a_sequence_of_the_max_length_runs_and_one_longer_is_refused(small: Path) -> None:
    write(small / "sentence_bert_config.json", {"max_seq_length": 40})
    engine = Engine.load(small, EngineConfig(dtype="float32"))
    assert engine.step(pack([random_ids(0, 40, 120)])).numpy().shape == (1, 32)
    with pytest.raises(BatchError, match=r"sequence 0 has 41 tokens .* takes 40 \(sentence_bert_config\.json"):
        engine.step(pack([random_ids(0, 41, 120), random_ids(0, 3, 120)]))


@pytest.mark.parametrize("token", [120, 2**31, 2**32 - 1])
def test_a_token_outside_the_vocabulary_is_named_with_its_sequence(engine: Engine, token: int) -> None:
    sequences = [random_ids(0, 9, 120), np.array([1, token], np.uint32), random_ids(0, 3, 120)]
    with pytest.raises(BatchError, match=f"sequence 1 holds token id {token}, outside 0 to 119"):
        engine.step(pack(sequences))


def test_a_segment_the_model_does_not_have_is_refused(engine: Engine) -> None:
    with pytest.raises(BatchError, match="sequence 0 holds segment id 2, outside 0 to 1"):
        engine.step(pack([random_ids(0, 2, 120)], [np.array([0, 2], np.uint8)]))


def test_an_engine_goes_on_after_a_refused_batch(engine: Engine) -> None:
    batch = pack([random_ids(0, 9, 120)])
    before = engine.step(batch).numpy()
    with pytest.raises(BatchError):
        engine.step(pack([np.array([500], np.uint32)]))
    np.testing.assert_array_equal(engine.step(batch).numpy(), before)


def test_nothing_keeps_an_old_batch_alive(engine: Engine) -> None:
    batch = pack([random_ids(0, 9, 120)])
    tokens = weakref.ref(batch.token_ids)
    engine.step(batch).numpy()
    del batch
    gc.collect()
    assert tokens() is None
