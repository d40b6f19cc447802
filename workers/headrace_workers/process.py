"""One worker process: load the engine, serve until a signal, say what was done.

Knows signals, and that a monitor answers from before the model is loaded until all is over. Does not know flags:
command.py does.
"""

import asyncio
import logging
import signal
from contextlib import ExitStack

from headrace_contracts import ModelSpec
from headrace_engine import EngineConfig, EngineError, GraphConfig

from headrace_workers import event_loop, notify
from headrace_workers.calibration.loader import Loader
from headrace_workers.config import EngineSettings, WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.health import Limits
from headrace_workers.monitor import monitored
from headrace_workers.pulse import Pulse
from headrace_workers.serve import serve
from headrace_workers.spec import served_name
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)

__all__ = ["EngineError", "engine_config", "run"]


def run(model: str, *, engine: EngineConfig, config: WorkerConfig, calibrated: bool, ready_fd: int | None) -> Counters:
    """Load the model and serve it until SIGTERM or SIGINT, then drain; a second signal cancels.

    Args:
        model: as `Engine.load` takes it.
        engine: how to run it.
        config: settings of the worker.
        calibrated: whether to go by the calibration that is stored for it, where there is one.
        ready_fd: file descriptor to tell on that the worker is ready.

    Raises:
        EngineError: the model cannot be loaded, or not in this way.
        WorkerError: the worker cannot work with this server, fleet or budget.
        asyncio.CancelledError: a second signal came.
    """
    loader = Loader(model, engine, calibrated=calibrated)
    with ExitStack() as stack:
        pulse = None
        if config.monitor is not None:
            pulse = Pulse(Limits(step_s=config.max_step_s))
            stack.enter_context(monitored(config.monitor, served_name(config, model), pulse))
        runner = stack.enter_context(asyncio.Runner(loop_factory=event_loop.factory()))
        return runner.run(_serve_until_signal(loader, config, ready_fd, pulse))


async def _serve_until_signal(
    loader: Loader, config: WorkerConfig, ready_fd: int | None, pulse: Pulse | None
) -> Counters:
    stop = asyncio.Event()

    def on_ready(worker: Worker) -> None:
        _log_spec(worker.spec)
        if pulse is not None:
            pulse.begin(worker)
        notify.ready(ready_fd)

    pulsing = None if pulse is None else asyncio.ensure_future(pulse.run())
    serving = asyncio.ensure_future(serve(loader.load, config, stop, on_ready, lambda: loader.found))
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            serving.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        return await serving
    finally:
        if pulsing is not None:
            pulsing.cancel()


def _log_spec(spec: ModelSpec) -> None:
    logger.info(
        "serving %s: %d dimensions, max_length %d (%s), %s pooling, computed in %s",
        spec.name,
        spec.dim,
        spec.max_length,
        spec.max_length_source,
        spec.pooling,
        spec.compute_dtype,
    )


def engine_config(settings: EngineSettings) -> EngineConfig:
    """The settings as the engine takes them.

    Raises:
        ValueError: one of them makes no sense; the text names it.
    """
    return EngineConfig(
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        attention=settings.attention,
        graphs=GraphConfig() if settings.graphs else None,
        warm_up=settings.warm_up,
    )
