"""A message as it comes from nats-server, with any headers, and what both sides read in them before its body.

It knows that one message must never keep the next one from being heard. It does not know bodies.
"""

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from headrace_contracts import DecodeError, Envelope, headers, subjects

from fuzz import packing
from fuzz.framing import received
from fuzz.messages import check_text
from fuzz.mutation import mutated_headers, mutated_parts
from fuzz.target import Target, Verdict, Wrong
from fuzz.trees import other_bytes

# What a whole chunk travels with.
BLOCK = (
    b"NATS/1.0\r\nNats-Msg-Id: c1-0\r\nHr-Reply: hr.inbox.c11e47.3.r\r\nHr-Deadline: 1900000000000\r\nHr-Tokens: 2\r\n"
    b"Hr-Tenant: search\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    b"Hr-Request: order-7\r\n\r\n"
)
_BLOCKS = (
    BLOCK,
    b"NATS/1.0\r\nHr-Reply: hr.results.nightly.7\r\nHr-Tokens: 2\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 10\r\n\r\n",
    b"NATS/1.0\r\nHr-Reason: invalid: n is 2\r\nHr-Deliveries: 3\r\nNats-Msg-Id: HR_ONLINE_minilm_0_3-99\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0",
    b"x",
    b"",
)
# As nats-py has it.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
SUBJECTS = (b"hr.online.minilm.0.0", b"hr.batch.minilm.nightly.7", b"hr.fleet.minilm", b"hr.dead.minilm.online")


def targets() -> list[Target]:
    """It."""
    return [Target(name="frame", group="decode", seeds=_seeds, run=run, mutate=mutate, packages=(*_OURS, "nats"))]


_OURS = ("headrace_contracts", "headrace", "headrace_workers")


def _seeds() -> list[bytes]:
    return [packing.packed({"s": subject, "h": block, "b": b"body"}) for block in _BLOCKS for subject in SUBJECTS]


def mutate(data: bytes, rng: Random) -> bytes:
    """Another message."""
    return mutated_parts(data, rng, {"h": mutated_headers, "s": other_bytes, "b": other_bytes})


def parts(data: bytes, *keys: str) -> dict[str, bytes] | None:
    """What an input is made of; None where it is nothing."""
    try:
        found: Any = packing.unpacked(data)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    read = {key: found.get(key, b"") for key in keys}
    return read if all(isinstance(value, bytes) for value in read.values()) else None


def run(data: bytes) -> Verdict:
    """Receive a message, and read its headers as a worker does.

    Raises:
        Wrong: It does not come, or comes back as another one.
    """
    found = parts(data, "s", "h", "b")
    if found is None:
        return Verdict.REFUSED
    message = received(found["s"], found["h"], found["b"])
    return read_envelope(message.headers)


def read_envelope(found: dict[str, str] | None) -> Verdict:
    """Read headers by all that reads them.

    Raises:
        Wrong: A law is broken.
    """
    _check_what_is_told(found or {})
    try:
        envelope = Envelope.from_headers(found)
    except DecodeError as error:
        check_text(str(error))
        return Verdict.REFUSED
    if not subjects.is_reply_to(envelope.reply_to):
        raise Wrong(f"an answer would go to {envelope.reply_to!r}")
    written = envelope.to_headers()
    if Envelope.from_headers(written) != envelope:
        raise Wrong(f"{envelope} comes back as another one")
    for name, value in written.items():
        # A line break would start a header of its own.
        if not (name.isascii() and value.isprintable()):
            raise Wrong(f"header {name} would be written as {value!r}")
    return Verdict.TAKEN


def _check_what_is_told(found: dict[str, str]) -> None:
    for name in (headers.TENANT, headers.REQUEST):
        named = headers.name_in(found, name)
        if named is not None:
            subjects.token(named, name)
    if any(name.startswith("Nats-") for name in headers.passed_on(found)):
        raise Wrong("an order to the broker is passed on")


def check_writable(found: Mapping[str, str]) -> None:
    """See that headers can be published anew, as themselves.

    Raises:
        Wrong: nats-py would refuse one, or one would begin another.
    """
    for name, value in found.items():
        if not _NAME.fullmatch(name) or "\n" in value or "\r" in value:
            raise Wrong(f"header {name!r}: {value!r} cannot be published anew")
