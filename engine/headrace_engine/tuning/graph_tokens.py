"""The number of tokens above which graphs stop paying, measured with one model on one device.

It knows how a batch is run eagerly and by a graph. Which batches, and what follows from their times, is `ladder`'s.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean

import torch

from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.select import choose
from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.load import load
from headrace_engine.device import find as find_device
from headrace_engine.engine import load_model
from headrace_engine.graphs import GraphConfig, Graphs
from headrace_engine.limits import Limits
from headrace_engine.precision import compute_dtype
from headrace_engine.runner import Runner
from headrace_engine.tuning.apart import Apart, Lost, apart
from headrace_engine.tuning.ladder import RUNGS, Rung, compositions, largest_paying, while_it_pays
from headrace_engine.tuning.mix import packed
from headrace_engine.tuning.stopwatch import Clock, medians_ms
from headrace_engine.tuning.target import Target

logger = logging.getLogger(__name__)

# Of the budget, when no further rung is begun: the rest is for starting, and for the one under way.
_CLIMBING = 0.6
_MAX_GRAPH_TOKENS = 2 * RUNGS[-1]  # dummies may bring a batch beyond its rung


def measure_graph_tokens(
    checkpoint: Checkpoint, config: EngineConfig, budget_s: float, *, run: Apart = apart
) -> int | None:
    """Compare eager with replayed batches of ever more tokens, until graphs no longer pay.

    For each number of tokens, 64 to 16,384, batches of short, middling and longest texts take turns, eager and
    replayed. Captures are not timed; padding is, since a replay computes it. Graphs pay where they take at least 3 %
    off the time. The comparison ends where they do not twice in a row, where a batch cannot be captured, or with the
    budget.

    It runs in a process of its own, as `measure_attention` does.

    Args:
        checkpoint: The model.
        config: How it is to be run; with its table measured first, if it is to be. Its max_graph_tokens is not
            looked at, nor what it would warm up.
        budget_s: Seconds for all of it.
        run: How the comparison is run.

    Returns:
        What to set max_graph_tokens to: the largest number of tokens measured with which graphs pay, 0 where they never
        do. None where there are none, as on a CPU or with a backend that cannot be captured, and where nothing could be
        measured, which a warning says.

    Raises:
        DeviceNotFound: The device asked for is not here.
        CheckpointError: A tensor is missing, unused or misshapen.
        UnsupportedModel: The attention asked for cannot run the model there.
    """
    target = Target.of(checkpoint, config)
    if target is None or config.graphs is None:
        return None
    backend = choose(target.case, missing_backends("cuda"), config.attention, config.table).backend
    own = replace(target.config, attention=backend)
    try:
        rungs = run(climb, checkpoint.path, own, budget_s * _CLIMBING, timeout_s=budget_s)
    except Lost as error:
        logger.warning("from how many tokens on graphs pay with %s could not be measured: %s", backend, error)
        return None
    for rung in rungs:
        logger.info("graphs with %s: %s", backend, rung)
    return largest_paying(rungs)


@torch.inference_mode()
def climb(path: Path, config: EngineConfig, seconds: float, clock: Clock = time.perf_counter) -> tuple[Rung, ...]:
    """Load a model, and time batches of ever more tokens, eager and replayed, until graphs no longer pay.

    Args:
        path: The checkpoint's directory.
        config: How it is run, its attention by name.
        seconds: When to begin no further number of tokens.
        clock: What to time with.

    Returns:
        What was measured, by rising tokens; empty where there are no graphs, or no time for one.

    Raises:
        EngineError: It cannot be loaded so.
        RuntimeError: Not even batches of the fewest tokens can be captured.
    """
    ends_s = clock() + seconds
    checkpoint = Checkpoint.read(path, str(path))
    ways = _Ways.load(checkpoint, config)
    if ways is None:
        return ()
    rungs: list[Rung] = []
    try:
        for rung in while_it_pays(_rungs(ways, checkpoint.vocab_size, ends_s, clock)):
            rungs.append(rung)  # noqa: PERF402 - those before an error are kept
    except Exception as error:
        if not rungs:
            raise
        logger.warning("graphs are measured up to %d tokens only: %r", rungs[-1].tokens, error)
    return tuple(rungs)


def _rungs(ways: "_Ways", vocab_size: int, ends_s: float, clock: Clock) -> Iterator[Rung]:
    for tokens in RUNGS:
        if clock() >= ends_s:
            return
        batches = [packed(lengths, vocab_size) for lengths in compositions(tokens, ways.graphs.buckets)]
        eager_ms, replay_ms = zip(*(ways.times_ms(batch, clock) for batch in batches), strict=True)
        yield Rung(tokens, geometric_mean(eager_ms), geometric_mean(replay_ms))


@dataclass(frozen=True, slots=True)
class _Ways:
    """One model with two runners."""

    eager: Runner
    replaying: Runner
    graphs: Graphs  # of `replaying`

    @classmethod
    def load(cls, checkpoint: Checkpoint, config: EngineConfig) -> "_Ways | None":
        device = find_device(config.device)
        dtype = compute_dtype(config, device)
        model = load_model(checkpoint, dtype, device)

        def runner(graphs: GraphConfig | None) -> Runner:
            own = replace(config, graphs=graphs, max_graph_tokens=_MAX_GRAPH_TOKENS)
            return load(model, config.attention, own, Limits.of(checkpoint), dtype, device)

        # The second hit is captured at once.
        replaying = runner(None if config.graphs is None else replace(config.graphs, defer_s=0))
        return None if replaying.graphs is None else cls(runner(None), replaying, replaying.graphs)

    def times_ms(self, batch: RaggedBatch, clock: Clock) -> tuple[float, float]:
        """Time a batch eagerly and replayed; raises RuntimeError where it cannot be captured."""
        self.graphs.release()  # one graph at a time is enough
        runs = [partial(_wait_for, runner, batch) for runner in (self.eager, self.replaying)]
        eager_ms, replay_ms = medians_ms(runs, clock)
        if self.graphs.num_graphs == 0:
            message = f"a batch of {batch.num_tokens} tokens in {batch.num_sequences} sequences cannot be captured"
            raise RuntimeError(message)
        return eager_ms, replay_ms


def _wait_for(runner: Runner, batch: RaggedBatch) -> None:
    runner.run(batch).numpy()
