"""A dead letter, of which nothing may be taken for granted.

It knows all that is asked of a letter. It does not know the broker.
"""

from datetime import UTC, datetime
from functools import partial
from random import Random

from headrace.letter import Letter
from headrace_contracts import InvalidName

from fuzz import packing
from fuzz.frames import check_writable, parts
from fuzz.framing import received
from fuzz.messages import check_text, refit_chunk
from fuzz.mutation import Mutate, mutated_headers, mutated_msgpack, mutated_parts
from fuzz.target import Target, Verdict, Wrong
from fuzz.trees import other_bytes
from fuzz.vectors import vectors

_WHEN = datetime(2026, 11, 30, 12, tzinfo=UTC)
_NOW_MS = 1_800_000_000_000
_BLOCK = (
    b"NATS/1.0\r\nHr-Reply: hr.results.nightly.7\r\nHr-Deadline: 1900000000000\r\nHr-Tokens: 2\r\nHr-Request: o-7\r\n"
    b"Hr-Reason: invalid: n is 2\r\nHr-Deliveries: 3\r\nNats-Msg-Id: HR_ONLINE_minilm_0_3-99\r\n\r\n"
)
_SUBJECTS = (b"hr.dead.minilm.online", b"hr.dead.minilm.batch", b"hr.dead..batch", b"hr.dead.UPPER.batch", b"hr.dead.x")


def targets() -> list[Target]:
    """It."""
    return [Target(name="letter", group="decode", seeds=_seeds, run=run, mutate=_mutate)]


def _seeds() -> list[bytes]:
    inputs = ((subject, body) for subject in _SUBJECTS for body in vectors("chunk")[:8])
    return [packing.packed({"s": subject, "h": _BLOCK, "b": body}) for subject, body in inputs]


def _mutate(data: bytes, rng: Random) -> bytes:
    changed: dict[str, Mutate] = {
        "s": other_bytes,
        "h": mutated_headers,
        "b": partial(mutated_msgpack, refit=refit_chunk),
    }
    return mutated_parts(data, rng, changed)


def run(data: bytes) -> Verdict:
    """Read a letter and ask it everything.

    Raises:
        Wrong: It would be published anew with an order to the broker.
    """
    found = parts(data, "s", "h", "b")
    if found is None:
        return Verdict.REFUSED
    message = received(found["s"], found["h"], found["b"])
    letter = Letter.read(9, _WHEN, message.subject, message.headers, message.data)
    told = (letter.reason, letter.code, letter.deliveries, letter.place, letter.job, letter.request_id, letter.reply_to)
    check_text("".join(filter(None, told)) + "it")
    again = letter.again(_NOW_MS)
    if [name for name in again if name.startswith("Nats-")] != ["Nats-Msg-Id"]:
        raise Wrong(f"it would be published anew with {again}")
    check_writable(again)
    try:
        subject = letter.subject
    except InvalidName:  # whoever replays it says so
        return Verdict.REFUSED
    if subject is not None and not subject.startswith(("hr.online.", "hr.batch.")):
        raise Wrong(f"it would be published anew to {subject!r}")
    return Verdict.REFUSED if letter.chunk is None else Verdict.TAKEN
