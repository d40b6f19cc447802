"""What stands in the broker: NATS streams, consumers and buckets, as data.

Knows every name and setting, and how the JetStream API spells them. Does not talk to a server: workers/provision.py
does. Why each is as it is: DESIGN decisions in ops/decisions/ and the NATS documents named at the fields.
"""

from dataclasses import dataclass
from typing import Literal

from headrace_contracts import subjects

MIN_SERVER = (2, 12)  # first with prioritized pulls (ADR-42) and atomic batch publish (ADR-50)

MODELS_BUCKET = "hr_models"
JOBS_BUCKET = "hr_jobs"
TOKENIZERS_BUCKET = "hr_tokenizers"

RESULTS_STREAM = "HR_RESULTS"
DEAD_STREAM = "HR_DEAD"

CONSUMER = "workers"
PULL_GROUP = "w"
# Priorities of a pull inside the group: the broker serves lower numbers first.
IDLE, PREFETCH = 0, 3

ONLINE_MAX_AGE_S = 30.0
# What an online queue holds until its workers know how fast they are.
ONLINE_START_BYTES = 16 * 1024 * 1024

# How the names begin of all that a fleet has in the broker; KV_ and OBJ_ are what NATS puts before those of buckets.
_OURS = ("HR_", "KV_hr_", "OBJ_hr_")

_SECOND = 1_000_000_000  # the API counts in nanoseconds
_DAY = 24 * 3600.0
_RESULTS_ACK_WAIT_S = _DAY
_MIB = 1024 * 1024


def is_ours(stream: str) -> bool:
    """Whether a NATS stream is a fleet's, by its name."""
    return stream.startswith(_OURS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """One NATS stream. Zero or -1 means no limit, as in the JetStream API; times are seconds.

    `moves` where workers change max_bytes as the fleet changes, so that it is a start and no setting to compare.
    `tag` is one of the server_tags of the servers that it may lie on, in a cluster; None leaves that to the broker.
    """

    name: str
    subjects: tuple[str, ...]
    storage: Literal["memory", "file"]
    retention: Literal["workqueue", "limits"]
    discard: Literal["new", "old"]
    max_bytes: int
    max_age_s: float = 0
    max_msg_size: int = -1
    duplicate_window_s: float = 120
    replicas: int = 1
    allow_atomic: bool = False
    moves: bool = False
    tag: str | None = None

    def to_api(self) -> dict[str, object]:
        """The configuration as the JetStream API spells it."""
        return {
            "name": self.name,
            "subjects": list(self.subjects),
            "storage": self.storage,
            "retention": self.retention,
            "discard": self.discard,
            "max_bytes": self.max_bytes,
            "max_age": int(self.max_age_s * _SECOND),
            "max_msg_size": self.max_msg_size,
            "duplicate_window": int(self.duplicate_window_s * _SECOND),
            "num_replicas": self.replicas,
            "allow_atomic": self.allow_atomic,
            **({} if self.tag is None else {"placement": {"tags": [self.tag]}}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSpec:
    """A bucket, as clients of NATS make it: key-value (ADR-8 of NATS), or an object store (ADR-20 of NATS)."""

    bucket: str
    kind: Literal["key-value", "objects"]
    history: int = 1
    replicas: int = 1

    @property
    def name(self) -> str:
        """Of its NATS stream."""
        return f"{'KV' if self.kind == 'key-value' else 'OBJ'}_{self.bucket}"

    def to_api(self) -> dict[str, object]:
        """The configuration of its NATS stream, as the JetStream API spells it."""
        kept: dict[str, object] = {
            "name": self.name,
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "max_bytes": -1,
            "num_replicas": self.replicas,
            "allow_rollup_hdrs": True,
        }
        if self.kind == "objects":
            return kept | {"subjects": [f"$O.{self.bucket}.C.>", f"$O.{self.bucket}.M.>"], "allow_direct": True}
        of_keys = {"max_msgs_per_subject": self.history, "deny_delete": True, "allow_msg_ttl": True}
        return kept | {"subjects": [f"$KV.{self.bucket}.>"]} | of_keys


def buckets(*, replicas: int = 1) -> tuple[BucketSpec, ...]:
    """Those of a fleet: models with their last changes, bulk jobs, tokenizers."""
    return (
        BucketSpec(bucket=MODELS_BUCKET, kind="key-value", history=5, replicas=replicas),
        BucketSpec(bucket=JOBS_BUCKET, kind="key-value", replicas=replicas),
        BucketSpec(bucket=TOKENIZERS_BUCKET, kind="objects", replicas=replicas),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """The consumer of a work queue that all workers of a model share."""

    stream: str
    ack_wait_s: float
    memory: bool
    max_ack_pending: int = 20_000
    max_waiting: int = 4096

    def to_api(self) -> dict[str, object]:
        """The configuration as the JetStream API spells it."""
        return {
            "durable_name": CONSUMER,
            "name": CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": int(self.ack_wait_s * _SECOND),
            # Workers count deliveries and dead-letter themselves: a message past max_deliver would stay in a work
            # queue for ever, out of sight.
            "max_deliver": -1,
            "max_ack_pending": self.max_ack_pending,
            "max_waiting": self.max_waiting,
            "mem_storage": self.memory,
            "priority_groups": [PULL_GROUP],
            "priority_policy": "prioritized",
        }


def online_stream(
    model: str,
    shard: int,
    queue: int,
    *,
    max_msg_size: int,
    max_bytes: int = ONLINE_START_BYTES,
    tag: str | None = None,
) -> StreamSpec:
    """Requests that somebody waits for: memory, one copy, refused when full, forgotten when nobody waits any more."""
    return StreamSpec(
        name=subjects.online_stream(model, shard, queue),
        subjects=(subjects.online(model, shard, queue),),
        storage="memory",
        retention="workqueue",
        discard="new",
        max_bytes=max_bytes,
        max_age_s=ONLINE_MAX_AGE_S,
        max_msg_size=max_msg_size,
        duplicate_window_s=ONLINE_MAX_AGE_S,
        moves=True,
        tag=tag,
    )


def batch_stream(model: str, *, max_msg_size: int, replicas: int = 1, max_bytes: int = 1024 * _MIB) -> StreamSpec:
    """Bulk work: on disk, a bounded buffer that producers wait for when it is full."""
    return StreamSpec(
        name=subjects.batch_stream(model),
        subjects=(subjects.batch_all(model),),
        storage="file",
        retention="workqueue",
        discard="new",
        max_bytes=max_bytes,
        max_msg_size=max_msg_size,
        replicas=replicas,
        allow_atomic=True,
    )


def results_stream(*, replicas: int = 1, max_bytes: int = 4096 * _MIB) -> StreamSpec:
    """Results of bulk jobs until they are acked: their sink has written them. Workers wait while it is full."""
    return StreamSpec(
        name=RESULTS_STREAM,
        subjects=(f"{subjects.RESULTS_ROOT}.>",),
        storage="file",
        retention="workqueue",
        discard="new",
        max_bytes=max_bytes,
        max_age_s=7 * _DAY,
        replicas=replicas,
    )


def dead_stream(*, replicas: int = 1, max_bytes: int = 1024 * _MIB) -> StreamSpec:
    """Chunks that no worker can run, with the reason in a header, for people to look at."""
    return StreamSpec(
        name=DEAD_STREAM,
        subjects=(f"{subjects.DEAD_ROOT}.>",),
        storage="file",
        retention="limits",
        discard="old",
        max_bytes=max_bytes,
        max_age_s=30 * _DAY,
        replicas=replicas,
    )


def online_consumer(model: str, shard: int, queue: int, *, ack_wait_s: float = 10) -> ConsumerSpec:
    """Redelivered fast: somebody waits."""
    return ConsumerSpec(stream=subjects.online_stream(model, shard, queue), ack_wait_s=ack_wait_s, memory=True)


def results_consumer(name: str, job: str, shard: int) -> dict[str, object]:
    """What the one process that writes a shard of a bulk job reads its results by, as the JetStream API spells it.

    It holds what it got until its sink has written that, for however long, so nothing is ever redelivered for being
    late: whoever takes the shard over makes a new consumer, which begins with all that was not acked.
    """
    return {
        "durable_name": name,
        "name": name,
        "filter_subject": subjects.results(job, shard),
        "ack_policy": "explicit",
        "ack_wait": int(_RESULTS_ACK_WAIT_S * _SECOND),
        "max_deliver": -1,
        "max_ack_pending": -1,
        "inactive_threshold": int(_DAY * _SECOND),
    }


def batch_consumer(model: str, *, ack_wait_s: float = 60) -> ConsumerSpec:
    """Redelivered late: workers hold bulk chunks while online work passes them, and say so in time."""
    return ConsumerSpec(stream=subjects.batch_stream(model), ack_wait_s=ack_wait_s, memory=False)
