"""Loads an engine by the calibration that is stored for it.

Knows which calibration fits, and what of it the engine takes. What the worker's budgets take, spec.py knows.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from headrace_engine import Engine, EngineConfig
from headrace_engine.buckets import Buckets

from headrace_workers.calibration import store
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.here import Here

_CPU_DTYPES = ("float32", "float16", "bfloat16")


class Loader:
    """Loads one model once, on the thread that calls `load`.

    Attributes:
        found: the calibration that it was loaded by, or why there was none; None until then.
    """

    def __init__(self, model: str, config: EngineConfig, *, calibrated: bool = True) -> None:
        """Say what to load.

        Args:
            model: as `Engine.load` takes it.
            config: how to run it.
            calibrated: whether to look for a calibration.
        """
        self._model = model
        self._config = config
        self._calibrated = calibrated
        self.found: Calibration | Absence | None = None

    def load(self) -> Engine:
        """Load it; raises what `Engine.load` raises."""
        if self._calibrated:
            here, self.found = find(self._model, self._config)
        else:
            here, self.found = Here.of(self._model, self._config), Absence("switched off by --no-calibration")
        return Engine.load(here.checkpoint, tuned(here.config, self.found))


def find(model: str, asked: EngineConfig) -> tuple[Here, Calibration | Absence]:
    """What is to be run, and the calibration that fits it, or why there is none.

    Where the dtype of a CPU is left open, noise may make one the faster today and the other tomorrow: the one that is
    calibrated is taken, if only one is.

    Args:
        model: as `Engine.load` takes it.
        asked: how to run it, as the user gave it.

    Raises:
        EngineError: as `Here.of` does.
    """
    here = Here.of(model, asked)
    if asked.dtype == "auto" and here.device == "cpu":
        ways = [here.computing_in(dtype) for dtype in _CPU_DTYPES]
        fitting = [(way, found) for way in ways if isinstance(found := look_up(way, asked), Calibration)]
        if len(fitting) == 1:
            return fitting[0]
    return here, look_up(here, asked)


def look_up(here: Here, asked: EngineConfig) -> Calibration | Absence:
    """The calibration that fits, or why there is none.

    Args:
        here: what is to be run.
        asked: the configuration as the user gave it, for the command to name.
    """
    found = store.read(here.key)
    remedy = command(here.checkpoint.source, asked)
    if isinstance(found, Absence):
        return replace(found, remedy=remedy, is_cuda=here.device == "cuda")
    differences = ", ".join(found.conditions.differences(here.conditions))
    if differences:
        return Absence(
            f"the calibration of {found.made} for {here.key.device} in {here.key.dtype} is stale ({differences})",
            remedy,
            here.device == "cuda",
        )
    return found


def tuned(config: EngineConfig, found: Calibration | Absence) -> EngineConfig:
    """The configuration with what was measured of attention and graphs.

    A limit of graphs that leaves out a batch to be warmed up is not taken: what a flag asks for counts.
    """
    if isinstance(found, Absence):
        return config
    table = config.table if found.table is None else (*found.table, *config.table)  # the first row that fits counts
    limit = found.max_graph_tokens
    if limit is None or not _has_graphs(config.warm_up, limit, found.max_length):
        limit = config.max_graph_tokens
    return replace(config, table=table, max_graph_tokens=limit)


def _has_graphs(batches: Sequence[tuple[int, int]], limit: int, max_length: int) -> bool:
    """Whether there is a graph for each batch under a limit, whichever way its backend pads it."""
    try:
        ways = [Buckets(max_tokens=limit, max_length=max_length, buckets_max_seqlen=bakes) for bakes in (False, True)]
        return all(way.fit(number * length, number, length) for way in ways for number, length in batches)
    except ValueError:  # no batch of the model: the engine says so
        return not batches


def command(model: str, config: EngineConfig) -> str:
    """The command that calibrates a model as it is run here."""
    flags = {"device": config.device, "dtype": config.dtype, "attention": config.attention}
    words = [f"--{name} {value}" for name, value in flags.items() if value != "auto"]
    if config.threads:
        words.append(f"--threads {config.threads}")
    if config.graphs is None:
        words.append("--no-graphs")
    return " ".join(["headrace calibrate", shlex.quote(model), *words])
