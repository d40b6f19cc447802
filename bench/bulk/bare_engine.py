"""`python -m bulk.bare_engine`: the engine alone on the texts of a corpus, batched as well as a job batches them.

It knows how to fill steps. It knows no NATS, and tokenises before the clock runs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from economics import processes
from headrace_engine import Engine, EngineConfig, RaggedBatch, pack
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bulk import corpus

_WINDOW = 8192
_WARM_UP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is asked.

    Attributes:
        model: As the engine takes it.
        documents: Folder of the corpus.
        step_tokens: Of a step, at most.
        threads: Of the engine.
        seconds: To go on for, at least once through a window.
    """

    model: str
    documents: str
    step_tokens: int
    threads: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of it.

    Attributes:
        tokens_per_s: That the engine embedded.
        tokens: That it embedded.
    """

    tokens_per_s: float
    tokens: int


def run(plan: Plan) -> Ran:
    """Step until the time is over."""
    engine = Engine.load(plan.model, EngineConfig(threads=plan.threads))
    batches = list(_batches(engine, plan))
    for batch in batches[:_WARM_UP]:
        engine.step(batch).numpy()
    tokens, begun_s = 0, time.perf_counter()
    seconds = 0.0
    while seconds < plan.seconds:
        for batch in batches:
            engine.step(batch).numpy()
            tokens += batch.num_tokens
            seconds = time.perf_counter() - begun_s
            if seconds >= plan.seconds:
                break
    return Ran(tokens_per_s=tokens / seconds, tokens=tokens)


def _batches(engine: Engine, plan: Plan) -> Iterator[RaggedBatch]:
    """Of some windows, in random order: what is short and what is long take turns, however soon the time is over."""
    sequences = _sequences(engine, Path(plan.documents))
    lengths = np.array([len(each) for each in sequences])
    batches: list[RaggedBatch] = []
    for first in range(0, len(sequences), _WINDOW):
        order = first + np.argsort(lengths[first : first + _WINDOW], kind="stable")
        taken: list[NDArray[np.uint32]] = []
        tokens = 0
        for index in order.tolist():
            if taken and tokens + lengths[index] > plan.step_tokens:
                batches.append(pack(taken))
                taken, tokens = [], 0
            taken.append(sequences[index])
            tokens += int(lengths[index])
        batches.append(pack(taken))
    for index in np.random.default_rng(0).permutation(len(batches)):
        yield batches[index]


def _sequences(engine: Engine, documents: Path) -> list[NDArray[np.uint32]]:
    tokenizer = Tokenizer.from_str(engine.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = [text for _, block in corpus.read(documents) for text in block if text is not None]
    return [np.array(each.ids, np.uint32) for each in tokenizer.encode_batch_fast(texts)]


if __name__ == "__main__":
    processes.reply(run(processes.plan(Plan)))
