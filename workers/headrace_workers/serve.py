"""Puts a worker together and runs it: connect, agree with the fleet, provide, work, drain.

Knows the order of a worker's life. Does not know the command line.
"""

import asyncio
import logging
from collections.abc import Callable

from headrace_contracts import ModelSpec

from headrace_workers import broker, registry
from headrace_workers.config import WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.lane import Device, Lane
from headrace_workers.provision import Topology, provide
from headrace_workers.spec import budgets, describe
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)


async def serve(
    load: Callable[[], Device],
    config: WorkerConfig,
    stop: asyncio.Event,
    on_ready: Callable[[Worker], None] = lambda _: None,
) -> Counters:
    """Load a model and serve it until `stop` is set and all is drained.

    Args:
        load: gives the engine with its model; called on the thread that will run it.
        config: this worker's settings.
        stop: set it to drain.
        on_ready: called once when the worker begins to pull.

    Returns:
        What the worker did.

    Raises:
        Exception: whatever `load` raises.
        WorkerError: it cannot work with this server, fleet or budget; the text says what to change.
    """
    worker: Worker | None = None

    async def reconnected() -> None:
        if worker is not None and worker.is_running:
            worker.on_reconnect()

    async with broker.connected(config.nats_url, config.worker, reconnected) as nats, Lane.opened(load) as lane:
        checkpoint, compute_dtype = lane.device.checkpoint, str(lane.device.dtype).removeprefix("torch.")
        mine = describe(checkpoint, config, compute_dtype=compute_dtype, max_payload=nats.max_payload)
        # Now, before anything is published that this worker itself could not live by.
        budgets(config, mine, nats.max_payload)

        async def agree(*, replace_spec: bool) -> ModelSpec:
            return await registry.publish(
                nats.jetstream(), mine, checkpoint.tokenizer_json, replicas=config.replicas, replace_spec=replace_spec
            )

        spec = await agree(replace_spec=config.replace_spec)
        topology = Topology.of(spec, config)

        async def provide_all() -> None:
            await provide(nats, topology)
            await agree(replace_spec=False)

        await provide(nats, topology)
        worker = Worker(nats, lane, spec, budgets(config, spec, nats.max_payload), config, provide=provide_all)
        on_ready(worker)
        await worker.run(stop)
        return worker.counters
