"""The engine alone, in this process: token ids in, rows out, for each shape.

It knows how to load a model so that every shape fits, and how to time a step. It knows no NATS and no texts.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_engine import Engine, EngineConfig, pack
from headrace_engine.modules import Modules
from headrace_engine.resolve import resolve
from timing import Spread, repeat
from workloads import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of one shape.

    Attributes:
        shape: Its name.
        sequences: In a batch.
        tokens: In a batch.
        step: Durations, from the packed batch to its rows.
        tokens_per_s: At the median.
    """

    shape: str
    sequences: int
    tokens: int
    step: Spread
    tokens_per_s: float

    @classmethod
    def measure(cls, engine: Engine, shape: Shape, seconds: float) -> "Steps":
        """Step the same batch again and again.

        Args:
            engine: Loaded.
            shape: Of the batch.
            seconds: How long to measure.
        """
        batch = pack(shape.sequences(engine.checkpoint.vocab_size))
        step = repeat(lambda: engine.step(batch).numpy(), seconds)
        return cls(
            shape=shape.name,
            sequences=batch.num_sequences,
            tokens=batch.num_tokens,
            step=step,
            tokens_per_s=batch.num_tokens / step.p50_ms * 1000,
        )


def load(model: str, dtype: str, max_length: int) -> Engine:
    """Load a model that takes sequences of `max_length`, even if it states a lower limit than it has positions.

    Args:
        model: A directory, a package or a hub id, as the engine takes it.
        dtype: As `EngineConfig` takes it.
        max_length: Tokens of the longest sequence.
    """
    with _raised_limit(resolve(model), max_length) as directory:
        return Engine.load(directory, EngineConfig(dtype=dtype))


@contextmanager
def _raised_limit(source: Path, max_length: int) -> Iterator[Path]:
    """A directory of links to a model's files that states another limit, while the context lasts."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary:
        directory = Path(temporary) / "model"
        shutil.copytree(source.resolve(), directory, copy_function=os.symlink)
        limit = Modules.read(directory).transformer / "sentence_bert_config.json"
        stated = json.loads(limit.read_text("utf-8")) if limit.exists() else {}
        limit.unlink(missing_ok=True)  # a link: writing through it would change the model
        limit.write_text(json.dumps(stated | {"max_seq_length": max_length}), "utf-8")
        yield directory
