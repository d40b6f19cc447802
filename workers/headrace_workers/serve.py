"""Puts a worker together and runs it: connect, agree with the fleet, provide, work, drain.

Knows the order of a worker's life. Does not know the command line.
"""

import asyncio
import logging
from collections.abc import Callable

from nats.errors import Error as NatsError

from headrace_workers import broker, registry
from headrace_workers.config import WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.errors import ServerUnfit
from headrace_workers.lane import Lane, LoadedEngine
from headrace_workers.provision import Topology, provide
from headrace_workers.spec import budgets, describe
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)


async def serve(
    load: Callable[[], LoadedEngine],
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
    async with broker.connected(config.nats_url, config.worker) as connection, Lane.opened(load) as lane:
        nats = connection.nats
        checkpoint, compute_dtype = lane.engine.checkpoint, str(lane.engine.dtype).removeprefix("torch.")
        mine = describe(checkpoint, config, compute_dtype=compute_dtype, max_payload=nats.max_payload)
        spec = mine if config.replace_spec else await registry.agreed(nats.jetstream(), mine)
        chosen = budgets(config, spec, nats.max_payload)
        topology = Topology.of(spec, config)
        known = (nats.jetstream(), spec, checkpoint.tokenizer_json, config.replicas)

        async def provide_all(*, replace_spec: bool = False) -> float:
            # The NATS streams first: nothing may be published that cannot be served.
            ack_wait_s = await provide(nats, topology)
            await (registry.replace_spec if replace_spec else registry.publish)(*known)
            return ack_wait_s

        try:
            ack_wait_s = await provide_all(replace_spec=config.replace_spec)
        except NatsError as error:
            raise ServerUnfit(f"nats-server refuses what {spec.name} needs: {error}") from error
        worker = Worker(connection, lane, spec, chosen, config, provide_all, ack_wait_s)
        on_ready(worker)
        await worker.run(stop)
        return worker.counters
