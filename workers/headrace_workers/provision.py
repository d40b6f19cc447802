"""Makes sure that the broker has the NATS streams, consumers and buckets of a model.

Knows the JetStream API calls: create if absent, compare if present, never overwrite. Knows that a server of a cluster
may be gone, and what it held with it: then the API says nothing, or that it is offline. What should stand there is
data in contracts, topology.py; mending what differs is an operator's, upkeep.py. What an online NATS stream may hold
is set later, by gate.py.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from headrace_contracts import ModelSpec, limits, subjects, topology
from headrace_contracts.api import TIMEOUT_S, api
from headrace_contracts.topology import ConsumerSpec, StreamSpec
from nats.aio.client import Client as NatsClient

from headrace_workers.config import WorkerConfig
from headrace_workers.difference import differing
from headrace_workers.errors import TopologyConflict
from headrace_workers.leaders import passes

logger = logging.getLogger(__name__)

# For whether one NATS stream is there, asked again and again while its server is gone: whoever waits for longer does so
# while the server is back.
_ASK_S = 1.0


@dataclass(frozen=True, slots=True)
class Topology:
    """What one model needs in the broker.

    Attributes:
        streams: the NATS streams.
        consumers: at most one of each.
        shards: of the online NATS streams, by name.
    """

    streams: tuple[StreamSpec, ...]
    consumers: tuple[ConsumerSpec, ...]
    shards: Mapping[str, int]

    @classmethod
    def of(cls, spec: ModelSpec, config: WorkerConfig) -> "Topology":
        """The NATS streams and consumers of a model."""
        size = limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
        online = {"max_msg_size": size, "max_bytes": config.online_max_bytes or topology.ONLINE_START_BYTES}
        tags = dict(enumerate(config.placement))
        return cls(
            streams=(
                *(
                    topology.online_stream(spec.name, *queue, tag=tags.get(queue[0]), **online)
                    for queue in spec.online_queues
                ),
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
            shards={subjects.online_stream(spec.name, *queue): queue[0] for queue in spec.online_queues},
        )


class Provision:
    """Provides for one model."""

    def __init__(
        self, nats: NatsClient, wanted: Topology, publish: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Do nothing yet.

        Args:
            nats: the connection.
            wanted: what should be there.
            publish: makes the model known; awaited last, since nothing may be published that cannot be served.
        """
        self._nats = nats
        self._wanted = wanted
        self._publish = publish
        self._consumers = {consumer.stream: consumer for consumer in wanted.consumers}

    async def all(self, on_there: Callable[[str], None] = lambda _: None) -> float:
        """Create what is absent and compare what is present, then make the model known.

        Online NATS streams of which the broker says nothing, or that they are away, are left out as long as there are
        others: the server that has them is gone.

        Args:
            on_there: called with the name of each NATS stream as soon as it and its consumer are there.

        Returns:
            The shortest ack wait of the consumers, in seconds, as it stands in the broker.

        Raises:
            TopologyConflict: something present differs in a setting that decides correctness.
            nats.errors.Error: the server cannot be reached or refuses.
        """
        names = [stream.name for stream in self._wanted.streams]

        async def one(name: str) -> _Standing:
            each = await self._stream(name)
            on_there(name)
            return each

        # Side by side: of a server that is gone each request waits for its time-out.
        ends = dict(zip(names, await asyncio.gather(*map(one, names), return_exceptions=True), strict=True))
        silent = [name for name in self._wanted.shards if _is_away(ends[name])]
        if len(silent) < len(self._wanted.shards):
            for name in silent:
                logger.warning("the broker does not reach NATS stream %s: is the server gone that has it?", name)
                del ends[name]
        standing = {name: _unless_failed(end) for name, end in ends.items()}
        self._warn_of_shared(standing)
        if self._publish is not None:
            await self._publish()
        return min(each.ack_wait_s for each in standing.values() if each.ack_wait_s is not None)

    async def stream(self, name: str) -> None:
        """The same for one NATS stream and its consumer.

        Raises:
            TopologyConflict: it differs in a setting that decides correctness.
            nats.errors.Error: the server cannot be reached, refuses, or says nothing of it.
        """
        standing = await self._stream(name, _ASK_S)
        # Who removed it may have retired the model, and not have seen that this worker was about to serve it.
        if standing.is_new and self._publish is not None:
            await self._publish()

    async def _stream(self, name: str, ask_s: float = TIMEOUT_S) -> "_Standing":
        (stream,) = (stream for stream in self._wanted.streams if stream.name == name)
        config = stream.to_api()
        info = await api(self._nats, f"STREAM.INFO.{name}", timeout_s=ask_s)
        is_new = info is None
        if info is None:
            info = await api(self._nats, f"STREAM.CREATE.{name}", config) or {}
            logger.info("created NATS stream %s", name)
        else:
            settings = {key: value for key, value in config.items() if key != "max_bytes" or not stream.moves}
            _compare(f"NATS stream {name}", settings, info["config"])
        server = info.get("cluster", {}).get("leader")
        consumer = self._consumers.get(name)
        return _Standing(server, None if consumer is None else await self._consumer(consumer), is_new)

    async def _consumer(self, consumer: ConsumerSpec) -> float:
        """Its ack wait, in seconds, once it is there."""
        config = consumer.to_api()
        name = f"{consumer.stream}.{topology.CONSUMER}"
        info = await api(self._nats, f"CONSUMER.INFO.{name}")
        if info is None:
            info = await api(self._nats, f"CONSUMER.CREATE.{name}", {"stream_name": consumer.stream, "config": config})
            logger.info("created consumer %s", name)
        else:
            _compare(f"consumer {name}", config, info["config"])
        return consumer.ack_wait_s if info is None else float(info["config"]["ack_wait"]) / 1e9

    def _warn_of_shared(self, standing: "Mapping[str, _Standing]") -> None:
        """Say which servers take several shards with them when they fail."""
        shards: dict[str, set[int]] = defaultdict(set)
        for name, each in standing.items():
            if each.server and name in self._wanted.shards:
                shards[each.server].add(self._wanted.shards[name])
        shared = {server: sorted(those) for server, those in sorted(shards.items()) if len(those) > 1}
        if shared:
            text = ", ".join(f"{server} has NATS streams of {those}" for server, those in shared.items())
            logger.warning("shards share servers, and would fail together: %s; --placement keeps them apart", text)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A NATS stream that is there: on which server of a cluster, its consumer's ack wait, and whether it is new."""

    server: str | None
    ack_wait_s: float | None
    is_new: bool


def _is_away(end: _Standing | BaseException) -> bool:
    return isinstance(end, BaseException) and passes(end)


def _unless_failed(end: _Standing | BaseException) -> _Standing:
    if isinstance(end, BaseException):
        raise end
    return end


def _compare(what: str, wanted: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Say what differs; refuse to work with it if correctness hangs on it."""
    settings = differing(wanted, found)
    if not settings:
        return
    text = ", ".join(f"{each.name} is {each.found!r}, this worker would set {each.wanted!r}" for each in settings)
    if any(each.must_agree for each in settings):
        raise TopologyConflict(
            f"{what} stands there with other settings: {text}. Give the worker its fleet's settings, let `headrace "
            "provision --update` change it, or delete it when it is empty"
        )
    logger.info("%s is left as it is: %s", what, text)
