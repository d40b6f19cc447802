"""Makes sure that the broker has the NATS streams, consumers and buckets of a model.

Knows the JetStream API calls: create if absent, compare if present, never overwrite. What should stand there is data in
contracts, topology.py. What an online NATS stream may hold is set later, by gate.py.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from headrace_contracts import ModelSpec, limits, topology
from headrace_contracts.topology import ConsumerSpec, StreamSpec
from nats.aio.client import Client as NatsClient

from headrace_workers.api import api
from headrace_workers.config import WorkerConfig
from headrace_workers.errors import TopologyConflict

logger = logging.getLogger(__name__)

# Settings that decide whether work is lost, doubled or refused. The others are an operator's to tune.
_MUST_AGREE = frozenset(
    {"subjects", "retention", "storage", "discard", "ack_policy", "priority_groups", "priority_policy", "max_msg_size"}
)


@dataclass(frozen=True, slots=True)
class Topology:
    """What one model needs in the broker."""

    streams: tuple[StreamSpec, ...]
    consumers: tuple[ConsumerSpec, ...]

    @classmethod
    def of(cls, spec: ModelSpec, config: WorkerConfig) -> "Topology":
        """The NATS streams and consumers of a model."""
        size = limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
        online = {"max_msg_size": size, "max_bytes": config.online_max_bytes or topology.ONLINE_START_BYTES}
        return cls(
            streams=(
                *(topology.online_stream(spec.name, *queue, **online) for queue in spec.online_queues),
                topology.batch_stream(spec.name, max_msg_size=size, replicas=config.replicas),
                topology.results_stream(replicas=config.replicas),
                topology.dead_stream(replicas=config.replicas),
            ),
            consumers=(
                *(
                    topology.online_consumer(spec.name, *queue, ack_wait_s=config.online_ack_wait_s)
                    for queue in spec.online_queues
                ),
                topology.batch_consumer(spec.name, ack_wait_s=config.batch_ack_wait_s),
            ),
        )


async def provide(nats: NatsClient, wanted: Topology) -> float:
    """Create what is absent and compare what is present.

    Returns:
        The shortest ack wait of the consumers, in seconds, as it stands in the broker.

    Raises:
        TopologyConflict: something present differs in a setting that decides correctness.
        nats.errors.Error: the server cannot be reached or refuses.
    """
    for stream in wanted.streams:
        config = stream.to_api()
        info = await api(nats, f"STREAM.INFO.{stream.name}")
        if info is None:
            await api(nats, f"STREAM.CREATE.{stream.name}", config)
            logger.info("created NATS stream %s", stream.name)
        else:
            settings = {name: value for name, value in config.items() if name != "max_bytes" or not stream.moves}
            _compare(f"NATS stream {stream.name}", settings, info["config"])
    ack_waits = []
    for consumer in wanted.consumers:
        config = consumer.to_api()
        name = f"{consumer.stream}.{topology.CONSUMER}"
        info = await api(nats, f"CONSUMER.INFO.{name}")
        if info is None:
            info = await api(nats, f"CONSUMER.CREATE.{name}", {"stream_name": consumer.stream, "config": config})
            logger.info("created consumer %s", name)
        else:
            _compare(f"consumer {name}", config, info["config"])
        ack_waits.append(consumer.ack_wait_s if info is None else info["config"]["ack_wait"] / 1e9)
    return min(ack_waits)


def _compare(what: str, wanted: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Say what differs; refuse to work with it if correctness hangs on it."""
    differing = {
        name: (found.get(name), value) for name, value in wanted.items() if not _agrees(name, found.get(name), value)
    }
    if not differing:
        return
    text = ", ".join(f"{name} is {is_!r}, this worker would set {value!r}" for name, (is_, value) in differing.items())
    if _MUST_AGREE & differing.keys():
        raise TopologyConflict(
            f"{what} stands there with other settings: {text}. Give the worker its fleet's settings, or delete it when "
            "it is empty"
        )
    logger.info("%s is left as it is: %s", what, text)


def _agrees(name: str, found: object, wanted: object) -> bool:
    if name == "max_msg_size" and isinstance(found, int) and isinstance(wanted, int) and wanted > 0:
        return found < 0 or found >= wanted  # roomier is as good, and -1 is no limit
    # The API leaves out what is zero, empty or false.
    return (found or None) == (wanted or None)
