"""One run of `headrace provision`: what a model and its fleet need, looked at and made.

Knows the order: who connects, what the model's limits are, then part after part. Does not know flags or exit codes:
provision_command.py does. Imports torch, since the engine reads what a model is; no weights are loaded.
"""

from functools import partial

from headrace_contracts import ModelSpec, topology
from headrace_contracts.api import in_words
from headrace_contracts.refusal import NotAllowed
from headrace_engine import Checkpoint, EngineError
from headrace_engine.resolve import resolve
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace_workers import broker, registry
from headrace_workers.config import WorkerConfig
from headrace_workers.errors import ServerUnfit
from headrace_workers.leaders import led
from headrace_workers.provision import Topology
from headrace_workers.spec import budgets, describe
from headrace_workers.upkeep import Finding, Sizes, keep, parts

__all__ = ["EngineError", "run"]


async def run(
    model: str | None, config: WorkerConfig, sizes: Sizes, *, create: bool, update: bool
) -> tuple[Finding, ...]:
    """Look at all that a model and its fleet need in the broker, and make or change it as far as that is allowed.

    Args:
        model: as the engine takes it; None for what all models share.
        config: what its workers are told of names, limits, shards, queues, replicas and ack waits.
        sizes: how much may be kept.
        create: whether what is absent is made.
        update: whether what differs is changed, where that is safe.

    Returns:
        What became of each part, buckets first.

    Raises:
        EngineError: the model is not found, or cannot be read.
        WorkerError: the server is not there or will not do, or the fleet serves another model under the name.
    """
    checkpoint = None if model is None else Checkpoint.read(resolve(model), model)
    async with broker.connected(config.nats_url, config.worker, config.access) as connection:
        nats = connection.nats
        try:
            spec = None if checkpoint is None else await led(lambda: _spec(nats, checkpoint, config))
            wanted = _shared(config) if spec is None else Topology.of(spec, config)
            streams = tuple(sizes.of(stream) for stream in wanted.streams)
            found = parts(streams, topology.buckets(replicas=config.replicas), wanted.consumers)
            return tuple([await led(partial(keep, nats, part, create=create, update=update)) for part in found])
        except NotAllowed:
            raise
        except NatsError as error:
            raise ServerUnfit(f"nats-server does not say what stands there: {in_words(error)}") from error


async def _spec(nats: NatsClient, checkpoint: Checkpoint, config: WorkerConfig) -> ModelSpec:
    """The limits of the model: those that the fleet has published, or what its first worker would publish."""
    # What it computes in is nothing that the broker must know.
    mine = describe(checkpoint, config, compute_dtype="float32", max_payload=nats.max_payload)
    spec = await registry.agreed(nats.jetstream(), mine, computes=False)
    budgets(config, spec, nats.max_payload)  # refuses limits that no worker can live with
    return spec


def _shared(config: WorkerConfig) -> Topology:
    streams = (topology.results_stream(replicas=config.replicas), topology.dead_stream(replicas=config.replicas))
    return Topology(streams=streams, consumers=(), shards={})
