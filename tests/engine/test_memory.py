"""What a long run keeps: nothing."""

import gc
from pathlib import Path

import numpy as np
import psutil
from headrace_engine import Engine, EngineConfig, pack

# oneDNN keeps a thousand kernels, one for each size of each product, so the first steps do add something.
_STEPS, _WARM = 2000, 1000
_FLAT_BYTES = 4 * 2**20


def test_resident_memory_is_flat_over_two_thousand_steps_of_random_lengths(small: Path) -> None:
    engine = Engine.load(small, EngineConfig(dtype="float32"))
    rng, process = np.random.default_rng(3), psutil.Process()
    resident: list[int] = []
    for _ in range(_STEPS):
        lengths = rng.integers(1, 80, rng.integers(1, 9))
        batch = pack([rng.integers(0, 120, length).astype(np.uint32) for length in lengths])
        assert np.isfinite(engine.step(batch).numpy()).all()
        resident.append(process.memory_info().rss)
    gc.collect()
    assert process.memory_info().rss - max(resident[:_WARM]) < _FLAT_BYTES
