"""The attention-backend table of one device, measured with one model.

It knows which backends to try and within which time. What follows from the times is `ranking`'s.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import Case, Row, choose
from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.engine import Engine
from headrace_engine.errors import UnsupportedModel
from headrace_engine.tuning.apart import Apart, Lost, apart
from headrace_engine.tuning.mix import Batch, mix, packed
from headrace_engine.tuning.ranking import rows
from headrace_engine.tuning.stopwatch import Clock, medians_ms
from headrace_engine.tuning.target import Target

logger = logging.getLogger(__name__)


def measure_attention(
    checkpoint: Checkpoint, config: EngineConfig, budget_s: float, *, run: Apart = apart
) -> tuple[Row, ...]:
    """Time whole steps of a model with every backend that is installed and can run it, and order them by speed.

    The batches are those of `mix`, one query and full batches of several lengths, and run as they would in service, by
    a graph where `config` has one for them. `ranking.rows` says how an order comes of their times.

    Each backend has a process of its own, one after the other, so one that hangs while it compiles, crashes or leaves
    its CUDA context broken is left out of the order, with a warning, and spoils nothing. Each of them loads the model
    anew, so this process should hold no engine on the device meanwhile. Compilers keep what they made, so a backend
    that was not ready in time may be at the next call.

    Args:
        checkpoint: The model.
        config: How it is to be run; its attention is not looked at, nor what it would warm up.
        budget_s: Seconds for all of it; shared out evenly, and what one leaves goes to those after it. A process takes
            some ten seconds to begin, and a backend that compiles may take minutes the first time.
        run: How a backend's part is run.

    Returns:
        Rows for exactly this compute capability and the model's head width, up to its max length, to be put before
        others in the table of `choose`. Empty where there is no CUDA device, or no backend ran. What is installed later
        is in none of them: measure again.

    Raises:
        DeviceNotFound: The device asked for is not here.
        CheckpointError: A tensor is missing, unused or misshapen.
    """
    ends_s = time.monotonic() + budget_s
    target = Target.of(checkpoint, config)
    if target is None:
        return ()
    batches = mix(checkpoint.max_length)
    backends = list(able(target.case))
    times_ms = {}
    for index, backend in enumerate(backends):
        timeout_s = max(0, ends_s - time.monotonic()) / (len(backends) - index)
        own = replace(target.config, attention=backend)
        try:
            times_ms[backend] = run(step_times_ms, checkpoint.path, own, batches, timeout_s=timeout_s)
        except Lost as error:
            logger.warning("attention by %s is left out of the measured order: %s", backend, error)
    return rows(target.case, batches, times_ms, datetime.now(UTC).date())


def able(case: Case) -> Iterator[str]:
    """The backends that are installed and can run the case, those first that compile nothing and so leave time."""
    missing = missing_backends("cuda")
    for name in reversed(tuple(OBSTACLES)):
        try:
            yield choose(case, missing, name).backend
        except UnsupportedModel as error:
            logger.info("not measured: %s", error)


def step_times_ms(
    path: Path, config: EngineConfig, batches: tuple[Batch, ...], clock: Clock = time.perf_counter
) -> list[float]:
    """Load an engine, and time one step of each batch, from its queueing to its rows in NumPy.

    Args:
        path: The checkpoint's directory: what is read of it may hold functions, which do not go through pickle.
        config: How it is run; a second hit is captured at once, so that what is timed is replays where there are any.
        batches: What to run.
        clock: What to time with.

    Returns:
        The median of each.

    Raises:
        EngineError: It cannot be loaded so.
    """
    graphs = None if config.graphs is None else replace(config.graphs, defer_s=0)
    engine = Engine.load(path, replace(config, graphs=graphs))
    vocab_size = engine.checkpoint.vocab_size
    steps = [partial(_step, engine, packed(batch.lengths, vocab_size)) for batch in batches]
    return medians_ms(steps, clock)


def _step(engine: Engine, batch: RaggedBatch) -> None:
    engine.step(batch).numpy()
