"""What an operator keeps in the broker for a fleet: makes what is absent, and mends what differs where that is safe.

Knows the JetStream API calls that look, create and update. What should stand there is said by topology.py of contracts
and by provision.py; which settings may change where they stand, by difference.py. Does not know the command line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace_contracts import topology
from headrace_contracts.api import api
from headrace_contracts.topology import BucketSpec, ConsumerSpec, StreamSpec
from nats.aio.client import Client as NatsClient
from nats.js.errors import APIError

from headrace_workers.difference import Setting, differing

State = Literal["same", "absent", "differs", "created", "changed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much may be kept, and for how long; the sizes are bytes, 0 is no limit of age.

    Attributes:
        batch_bytes: bulk work of a model.
        results_bytes: results of bulk jobs that no sink has yet.
        results_age_s: of a result.
        dead_bytes: dead letters.
        dead_age_s: of a dead letter.
    """

    batch_bytes: int
    results_bytes: int
    results_age_s: float
    dead_bytes: int
    dead_age_s: float

    def __post_init__(self) -> None:
        for name in ("batch_bytes", "results_bytes", "dead_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("results_age_s", "dead_age_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be 0 or more")

    def of(self, stream: StreamSpec) -> StreamSpec:
        """A NATS stream with these instead of its own."""
        if stream.name == topology.RESULTS_STREAM:
            return replace(stream, max_bytes=self.results_bytes, max_age_s=self.results_age_s)
        if stream.name == topology.DEAD_STREAM:
            return replace(stream, max_bytes=self.dead_bytes, max_age_s=self.dead_age_s)
        return stream if stream.moves else replace(stream, max_bytes=self.batch_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A NATS stream or a consumer that should be there.

    Attributes:
        kind: which.
        name: of the NATS stream; of a consumer with its own after a point.
        config: as the JetStream API spells it.
        moving: settings of it that workers change, so that they are a start and nothing to compare.
    """

    kind: Literal["NATS stream", "consumer"]
    name: str
    config: Mapping[str, object]
    moving: frozenset[str] = frozenset()

    @property
    def _api(self) -> str:
        return "STREAM" if self.kind == "NATS stream" else "CONSUMER"

    @property
    def info(self) -> str:
        """The call that looks at it."""
        return f"{self._api}.INFO.{self.name}"

    @property
    def create(self) -> str:
        """The call that makes it."""
        return f"{self._api}.CREATE.{self.name}"

    @property
    def update(self) -> str:
        """The call that changes it; a consumer is made again, with other settings."""
        return f"STREAM.UPDATE.{self.name}" if self.kind == "NATS stream" else self.create

    def body(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """What goes with either."""
        if self.kind == "NATS stream":
            return config
        return {"stream_name": self.name.partition(".")[0], "config": config}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a part.

    Attributes:
        part: which.
        state: same, absent or differs, as it was found; created or changed, as it is now; refused by the broker.
        settings: those that differ.
        changed: those that did, and do not any more.
        reason: why the broker refused.
    """

    part: Part
    state: State
    settings: tuple[Setting, ...] = ()
    changed: tuple[Setting, ...] = ()
    reason: str = ""

    @property
    def is_well(self) -> bool:
        """Whether it stands as it should."""
        return self.state in {"same", "created", "changed"}


def parts(
    streams: Sequence[StreamSpec], buckets: Sequence[BucketSpec], consumers: Sequence[ConsumerSpec]
) -> Iterator[Part]:
    """All that should be there, in the order in which it can be made."""
    for bucket in buckets:
        yield Part(kind="NATS stream", name=bucket.name, config=bucket.to_api())
    for stream in streams:
        moving = frozenset({"max_bytes"} if stream.moves else ())
        yield Part(kind="NATS stream", name=stream.name, config=stream.to_api(), moving=moving)
    for consumer in consumers:
        name = f"{consumer.stream}.{topology.CONSUMER}"
        yield Part(kind="consumer", name=name, config=consumer.to_api())


async def keep(nats: NatsClient, part: Part, *, create: bool, update: bool) -> Finding:
    """Look at a part; make it if it is absent, and change what differs, as far as that is allowed and safe.

    Args:
        nats: the connection.
        part: which.
        create: whether it may be made.
        update: whether it may be changed.

    Raises:
        nats.errors.Error: the server cannot be reached, or does not let the user look.
    """
    found = await api(nats, part.info)
    if found is None:
        if not create:
            return Finding(part=part, state="absent")
        return await _do(nats, part, Finding(part=part, state="created"), part.create, part.config)
    config: dict[str, object] = found["config"]
    wanted = {name: value for name, value in part.config.items() if name not in part.moving}
    has_messages = part.kind == "NATS stream" and found["state"]["messages"] > 0
    settings = differing(wanted, config, has_messages=has_messages)
    if not settings:
        return Finding(part=part, state="same")
    safe = tuple(each for each in settings if update and not each.obstacle)
    left = tuple(each for each in settings if each not in safe)
    done = Finding(part=part, state="differs" if left else "changed", settings=left, changed=safe)
    # What else somebody has tuned stays as it is.
    merged = {**config, **{each.name: each.wanted for each in safe}}
    return await _do(nats, part, done, part.update, merged) if safe else done


async def _do(nats: NatsClient, part: Part, done: Finding, call: str, config: Mapping[str, object]) -> Finding:
    try:
        await api(nats, call, part.body(config))
    except APIError as error:
        left = (*done.settings, *done.changed)
        reason = error.description or f"error {error.err_code}"
        return replace(done, state="refused", settings=left, changed=(), reason=reason)
    return done
