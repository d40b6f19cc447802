"""Calibrates: what headrace calibrate does once its flags are read.

Knows the order: tune what can be tuned, load, measure, fit, choose. Does not know flags, files or what is shown.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace_engine import Engine, EngineConfig, EngineError, GraphConfig
from headrace_engine.attention.select import Row
from headrace_engine.tuning import measure_attention, measure_graph_tokens

from headrace_workers.calibration import measure, plan
from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.choose import choose
from headrace_workers.calibration.cost import fit
from headrace_workers.calibration.here import Here
from headrace_workers.errors import DeviceFailed

__all__ = ["EngineConfig", "EngineError", "GraphConfig", "Here", "Settings", "calibrate", "tune"]

# Past the target: the law has to hold on both sides of what is chosen by it.
_ENOUGH = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked of a calibration.

    Attributes:
        target_ms: the longest that an online request may be made to wait behind what the device has in hand.
        budget_s: seconds that steps may be measured for; loading comes on top.
        tune_s: on a CUDA device, seconds for comparing attention backends, and as many for graphs; what must be
            compiled first is counted.
    """

    target_ms: float
    budget_s: float
    tune_s: float


def calibrate(here: Here, settings: Settings, progress: Callable[[float, str], None]) -> Calibration:
    """Measure a model on a device, and choose by it. Stores nothing.

    Args:
        here: what is to be measured; made on this thread.
        settings: what is asked for.
        progress: told the share of the time that has gone, and what is done.

    Raises:
        EngineError: as `Engine.load` does.
        DeviceFailed: There is no memory for the smallest batch.
    """
    config, table, max_graph_tokens = here.config, None, None
    if here.device == "cuda":
        config, table, max_graph_tokens = tune(here, settings.tune_s, progress)
    progress(0, "loading")
    engine = Engine.load(here.checkpoint, config)
    max_length = here.checkpoint.max_length
    points = measure.measure(
        engine,
        plan.ladders(max_length),
        measure.Limits(budget_s=settings.budget_s, enough_ms=_ENOUGH * settings.target_ms),
        progress,
    )
    if not points:
        raise DeviceFailed(f"{here.key.device} has no memory for the smallest batch of {here.checkpoint.source}")
    cost = fit(points)
    return Calibration(
        key=here.key,
        conditions=here.conditions,
        model=_printable(here.checkpoint.source),
        max_length=max_length,
        made=dt.datetime.now(dt.UTC).date().isoformat(),
        points=points,
        cost=cost,
        choice=choose(
            cost,
            max_length=max_length,
            target_ms=settings.target_ms,
            most_measured=max(point.num_tokens for point in points),
            steps_ahead=engine.max_in_flight,
        ),
        table=table,
        max_graph_tokens=max_graph_tokens,
    )


def _printable(path: str) -> str:
    """A path with what is no UTF-8 in it written out, so that nothing fails on it once all is measured."""
    return path.encode("utf-8", "backslashreplace").decode()


def tune(
    here: Here, tune_s: float, progress: Callable[[float, str], None]
) -> tuple[EngineConfig, tuple[Row, ...] | None, int | None]:
    """Measure what a CUDA device leaves open, first the attention if none was asked for, then the graphs that run it.

    Returns:
        The configuration with what was found, the table, and the most tokens that graphs pay for; the last two are None
        where there is nothing to choose.
    """
    config = here.config
    table: tuple[Row, ...] = ()
    if config.attention == "auto":
        progress(0, "comparing attention backends")
        table = tuple(measure_attention(here.checkpoint, config, tune_s))
        config = replace(config, table=(*table, *config.table))
    progress(0, "comparing graphs with eager steps")
    max_graph_tokens = measure_graph_tokens(here.checkpoint, config, tune_s)
    if max_graph_tokens is not None:
        config = replace(config, max_graph_tokens=max_graph_tokens)
    return config, table or None, max_graph_tokens
