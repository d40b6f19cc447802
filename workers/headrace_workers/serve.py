"""Puts a worker together and runs it: connect, agree with the fleet, provide, work, drain.

Knows the order of a worker's life. Does not know the command line.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace_contracts import ModelSpec
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace_workers import broker, control, registry
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.choose import Choice
from headrace_workers.calibration.notice import notice
from headrace_workers.config import WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.errors import ServerUnfit, SpecConflict, TopologyConflict
from headrace_workers.lane import Lane, LoadedEngine
from headrace_workers.leaders import led
from headrace_workers.provision import Provision, Topology
from headrace_workers.rate import calibrated_rate
from headrace_workers.spec import Budgets, budgets, describe
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)


async def serve(
    load: Callable[[], LoadedEngine],
    config: WorkerConfig,
    stop: asyncio.Event,
    on_ready: Callable[[Worker], None] = lambda _: None,
    calibration: Callable[[], Calibration | Absence | None] = lambda: None,
) -> Counters:
    """Load a model and serve it until `stop` is set and all is drained.

    Args:
        load: gives the engine with its model; called on the thread that will run it.
        config: this worker's settings.
        stop: set it to drain.
        on_ready: called once when the worker begins to pull.
        calibration: asked once the engine is loaded: the one to take budgets from, or why there is none; None where
            nobody looked.

    Returns:
        What the worker did.

    Raises:
        Exception: whatever `load` raises.
        WorkerError: it cannot work with this server, fleet or budget; the text says what to change.
    """
    async with broker.connected(config.nats_url, config.worker, config.access) as connection, Lane.opened(load) as lane:
        if stop.is_set():  # while the model was being loaded: what is about to end takes no place in the fleet
            return Counters()
        nats = connection.nats
        checkpoint, compute_dtype = lane.engine.checkpoint, str(lane.engine.dtype).removeprefix("torch.")
        found = calibration()
        measured = found.choice if isinstance(found, Calibration) else None
        mine = describe(
            checkpoint, config, compute_dtype=compute_dtype, max_payload=nats.max_payload, measured=measured
        )
        try:
            place = await _take_place(nats, mine, config, measured, checkpoint.tokenizer_json)
        except (SpecConflict, TopologyConflict):
            # Of two first workers that were calibrated differently, the other was faster: now its limits are known.
            place = await _take_place(nats, mine, config, measured, checkpoint.tokenizer_json)
        logger.log(*notice(place.budgets, config, found))
        chosen = replace(place.budgets, rate=_rate(found, place.budgets.step_tokens))
        worker = Worker(connection, lane, place.spec, chosen, config, place.provision, place.ack_wait_s)
        async with control.reachable(worker, config.worker):
            on_ready(worker)
            await worker.run(stop)
        return worker.counters


def _rate(found: Calibration | Absence | None, step_tokens: int) -> int | None:
    if not isinstance(found, Calibration):
        return None
    return calibrated_rate(found.cost, step_tokens, found.max_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What a worker has of its fleet once all is provided."""

    spec: ModelSpec
    budgets: Budgets
    provision: Provision
    ack_wait_s: float


async def _take_place(
    nats: NatsClient, mine: ModelSpec, config: WorkerConfig, measured: Choice | None, tokenizer_json: bytes
) -> _Place:
    """Agree with the fleet, see that the budgets go with that, and provide what is not there."""
    try:
        spec = mine if config.replace_spec else await led(lambda: registry.agreed(nats.jetstream(), mine))
    except NotAllowed:
        raise
    except NatsError as error:
        raise ServerUnfit(f"nats-server does not say what the fleet serves as {mine.name}: {error}") from error
    chosen = budgets(config, spec, nats.max_payload, measured)
    replaces = config.replace_spec

    async def publish() -> None:
        nonlocal replaces
        write, replaces = registry.replace_spec if replaces else registry.publish, False
        await write(nats.jetstream(), spec, tokenizer_json, config.replicas)

    provision = Provision(nats, Topology.of(spec, config), publish)
    try:
        ack_wait_s = await led(provision.all)
    except NotAllowed:
        raise
    except NatsError as error:
        raise ServerUnfit(f"nats-server refuses what {spec.name} needs: {error}") from error
    return _Place(spec=spec, budgets=chosen, provision=provision, ack_wait_s=ack_wait_s)
