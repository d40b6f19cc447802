"""Dead letters for tests, as a worker leaves them."""

from typing import Any

import numpy as np
from headrace_contracts import Chunk, Envelope, Priority, encode_chunk, headers, subjects, topology
from nats.aio.client import Client as NatsClient

from ..fleet.broker_view import api

MODEL = "minilm"
REASON = "internal: this token id makes the engine fail"


def chunk(**changes: Any) -> Chunk:
    fields: dict[str, Any] = {
        "id": "0-c0ffee",
        "task": "embed",
        "model": MODEL,
        "fingerprint": "0123456789abcdef0123456789abcdef",
        "lengths": np.array([3, 2], np.uint32),
        "token_ids": np.array([101, 7592, 102, 101, 102], np.uint32),
        "job": "nightly",
        "seq": 4,
    }
    return Chunk(**{**fields, **changes})


def letter_headers(
    reply_to: str = "hr.results.nightly.7", place: str = f"HR_BATCH_{MODEL}-12", reason: str = REASON, **more: Any
) -> dict[str, str]:
    envelope = Envelope(reply_to=reply_to, tokens=5, msg_id=place, **more)
    return envelope.to_headers() | {headers.REASON: reason, headers.DELIVERIES: "3"}


async def streams(nats: NatsClient) -> None:
    """What the first worker of the model would have made."""
    for spec in (
        topology.dead_stream(),
        topology.results_stream(),
        topology.batch_stream(MODEL, max_msg_size=100_000),
        topology.online_stream(MODEL, 0, 1, max_msg_size=100_000),
    ):
        assert "error" not in await api(nats, f"STREAM.CREATE.{spec.name}", spec.to_api())


async def die(
    nats: NatsClient,
    found: dict[str, str] | None = None,
    *,
    body: bytes | None = None,
    priority: Priority = "batch",
    model: str = MODEL,
) -> int:
    """Keep a dead letter; its number."""
    sent = letter_headers() if found is None else found
    whole = encode_chunk(chunk(model=model)) if body is None else body
    return (await nats.jetstream().publish(subjects.dead(model, priority), whole, headers=sent)).seq
