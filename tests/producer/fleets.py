"""What a fleet may say of itself, for tests that need none."""

from dataclasses import replace
from typing import Any

import msgspec
from headrace.survey import Account, Broker, Crew, DeadCount, Job, Member, Queue, Survey
from headrace.survey.streams import Replicas, Stream
from headrace_contracts.control import ClassStatus, Status, Totals

from .specs import scorer

_CLASS = ClassStatus(
    budget_bytes=65536, credit_bytes=16384, held_bytes=16384, queued_chunks=3, queued_tokens=1200, oldest_s=0.25
)
_STATUS = Status(
    v=1,
    worker="mill-1",
    model="scorer",
    fingerprint="0123abcd",
    state="serving",
    waits_for="",
    version="0.1.0",
    device="cpu",
    dtype="float32",
    uptime_s=7200.0,
    rate=12_400,
    step_tokens=2048,
    steps_in_flight=1,
    held_chunks=5,
    held_tokens=2000,
    online=_CLASS,
    batch=msgspec.structs.replace(_CLASS, held_bytes=0),
    totals=Totals(
        delivered=12,
        answered=11,
        refused=0,
        expired=0,
        cancelled=0,
        dead_lettered=0,
        given_back=0,
        steps=4,
        failed_steps=0,
        tokens=8000,
    ),
)


def a_status(**changes: Any) -> Status:
    """Of a worker of the model `scorer`."""
    return msgspec.structs.replace(_STATUS, **changes)


def a_stream(name: str) -> Stream:
    return Stream(
        name=name, num_messages=0, num_bytes=0, max_bytes=1000, oldest_s=0, last_seq=0, created="", replicas=Replicas(1)
    )


def a_queue(**changes: Any) -> Queue:
    """An empty one, of the model `scorer`."""
    fields: dict[str, Any] = {
        "model": "scorer",
        "priority": "batch",
        "num_messages": 0,
        "num_bytes": 0,
        "max_bytes": 1_000_000,
        "oldest_s": 0.0,
        "consumer": None,
    }
    return Queue(**fields | changes)


def a_job(**changes: Any) -> Job:
    """One that is half done, of the model `scorer`."""
    fields: dict[str, Any] = {
        "name": "nightly",
        "state": "running",
        "model": "scorer",
        "created_ms": 0,
        "num_rows": 1000,
        "num_shards": 1,
    }
    return Job(**fields | changes)


def a_survey(**changes: Any) -> Survey:
    """Of a fleet at rest, with the model `scorer` and nobody who serves it."""
    quiet = Survey(
        taken_s=0.0,
        took_s=0.1,
        broker=Broker(server="nats-1", version="2.12.1", cluster=None, rtt_s=0.0004),
        account=Account(
            memory_bytes=2**20,
            storage_bytes=3 * 2**30,
            max_memory_bytes=2**30,
            max_storage_bytes=None,
            num_streams=6,
            num_consumers=2,
            num_api_errors=0,
        ),
        streams={name: a_stream(name) for name in ("HR_ONLINE_scorer_0_0", "HR_BATCH_scorer", "HR_RESULTS")},
        queues=(a_queue(), a_queue(priority="online")),
        models=(scorer(),),
        crews={"scorer": Crew()},
        dead_letters=(),
        jobs=(),
    )
    return replace(quiet, **changes)


def a_crew(*names: str) -> Crew:
    return Crew(tuple(Member(name, 1000, 0.5) for name in names), 1000)


def some_dead() -> tuple[DeadCount, ...]:
    return (DeadCount("scorer", "online", 3),)
