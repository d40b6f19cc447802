"""What the broker and the workers answer: PubAcks, the JetStream API, the status of a worker.

It knows who reads them, and by which errors that may end. It does not know who asks.
"""

from collections.abc import Callable
from functools import partial

from headrace.bulk import publisher
from headrace.errors import JobFailed
from headrace.outcome import read_ack
from headrace.workforce import read_status
from headrace_contracts.api import read_answer
from nats.errors import Error as NatsError

from fuzz.mutation import mutated_json
from fuzz.target import Target, Verdict
from fuzz.vectors import vector

_ACKS = (
    b'{"stream":"HR_BATCH_minilm","seq":7}',
    b'{"stream":"HR_BATCH_minilm","seq":7,"duplicate":true,"batch":"b","count":3}',
    b'{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"HR_BATCH_m","seq":0}',
    b'{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}',
    b'{"error":{"code":400,"err_code":10176,"description":"atomic publish batch is incomplete"}}',
    b"",
    b"{}",
    b"[]",
    b"null",
)
_ANSWERS = (
    *_ACKS,
    b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,"err_code":10059,"description":"no"}}',
    b'{"error":{"code":500,"err_code":10001,"description":"x","new":1}}',
    b'{"error":"text"}',
    b'{"error":{}}',
    b'{"streams":[],"total":0,"limit":256}',
)


def targets() -> list[Target]:
    """One a kind of answer."""
    return [
        _target("puback", _ACKS, _acked),
        _target("api", _ANSWERS, _answered),
        _target("stats", _stats(), lambda data: Verdict.REFUSED if read_status(data) is None else Verdict.TAKEN),
    ]


def _target(name: str, seeds: tuple[bytes, ...], run: Callable[[bytes], Verdict]) -> Target:
    return Target(name=name, group="decode", seeds=partial(list, seeds), run=run, mutate=mutated_json)


def _stats() -> tuple[bytes, ...]:
    statuses = (vector("status"), vector("status_draining"), b"{}", b"null")
    return tuple(b'{"name":"headrace-worker","endpoints":[{"name":"status","data":%b}]}' % each for each in statuses)


def _acked(data: bytes) -> Verdict:
    read_ack(data)
    try:
        publisher.read_ack(data)
    except JobFailed:
        return Verdict.REFUSED
    return Verdict.TAKEN


def _answered(data: bytes) -> Verdict:
    try:
        read_answer(data)
    except NatsError:
        return Verdict.REFUSED
    return Verdict.TAKEN
