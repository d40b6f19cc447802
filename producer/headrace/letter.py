"""One dead letter: a chunk that no worker could run, with the reason.

Pure. Knows the headers of a dead letter and where its chunk came from. Does not know the broker (dead_letters.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from headrace_contracts import Chunk, DecodeError, Priority, decode_chunk, headers, subjects

_DEAD = "hr.dead."
_ONLINE_PLACE = re.compile(r"HR_ONLINE_.+_([0-9]+)_([0-9]+)-[0-9]+")
_RESULTS = f"{subjects.RESULTS_ROOT}."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Letter:
    """A dead letter.

    Attributes:
        seq: its number in HR_DEAD.
        when: when it was kept, in UTC.
        model: whom the chunk was for.
        priority: its class.
        headers: all of the letter.
        body: the chunk as it came.
        chunk: decoded; None if it cannot be.
        problem: why it cannot be decoded.
    """

    seq: int
    when: datetime
    model: str
    priority: Priority
    headers: Mapping[str, str]
    body: bytes
    chunk: Chunk | None
    problem: str | None

    @classmethod
    def read(cls, seq: int, when: datetime, subject: str, found: Mapping[str, str] | None, body: bytes) -> Self:
        """Read what is in HR_DEAD; nothing in it is taken for granted."""
        model, _, priority = subject.removeprefix(_DEAD).rpartition(".")
        chunk, problem = None, None
        try:
            chunk = decode_chunk(body)
        except DecodeError as error:
            problem = str(error)
        return cls(
            seq=seq,
            when=when.astimezone(UTC),
            model=model,
            priority="online" if priority == "online" else "batch",
            headers=found or {},
            body=body,
            chunk=chunk,
            problem=problem,
        )

    @property
    def reason(self) -> str:
        """Why no worker could run it, as `<code>: <text>`."""
        return self.headers.get(headers.REASON) or "unknown: no reason was given"

    @property
    def code(self) -> str:
        """The error code of the reason."""
        return self.reason.partition(":")[0]

    @property
    def deliveries(self) -> str | None:
        """How often it had been delivered."""
        return self.headers.get(headers.DELIVERIES)

    @property
    def place(self) -> str | None:
        """Where it lay before: NATS stream and sequence number."""
        return self.headers.get(headers.MSG_ID)

    @property
    def reply_to(self) -> str | None:
        """Where its reply went; None if it had no place for one that a worker may answer to."""
        try:
            return headers.reply_to(self.headers)
        except DecodeError:
            return None

    @property
    def is_bulk(self) -> bool:
        """Whether its reply went to the results of a bulk job, rather than to a caller who waited."""
        return (self.reply_to or "").startswith(_RESULTS)

    @property
    def job(self) -> str | None:
        """The bulk job or large call that it is a part of, where that is known."""
        if self.reply_to is not None and self.is_bulk:
            return self.reply_to.removeprefix(_RESULTS).partition(".")[0]
        return None if self.chunk is None else self.chunk.job

    @property
    def request_id(self) -> str | None:
        """What the call was called that it is a part of, where that is known."""
        named = headers.name_in(self.headers, headers.REQUEST)
        return named if named is not None or self.chunk is None else self.job or self.chunk.id

    @property
    def subject(self) -> str | None:
        """Where its chunk was published; None if that cannot be told any more."""
        if self.priority == "batch":
            if self.reply_to is None:
                return None
            # The job and the shard of a bulk chunk; else the client, in whose inbox the reply was to go.
            _, _, owner, shard, *_ = self.reply_to.split(".")
            is_shard = self.is_bulk and shard.isascii() and shard.isdecimal()
            return subjects.batch(self.model, owner, int(shard) if is_shard else None)
        found = _ONLINE_PLACE.fullmatch(self.place or "")
        return None if found is None else subjects.online(self.model, int(found[1]), int(found[2]))

    def again(self, now_ms: int) -> dict[str, str]:
        """The headers to publish its chunk with once more: its own, without what a worker or the broker added.

        The message id is the same on every try, and none that the chunk had before.

        Args:
            now_ms: unix time; a deadline before it is left out, for the worker would drop the chunk unseen.
        """
        kept = headers.passed_on(self.headers)
        kept.pop(headers.REASON, None)
        kept.pop(headers.DELIVERIES, None)
        deadline = kept.get(headers.DEADLINE, "")
        if deadline.isascii() and deadline.isdecimal() and len(deadline) <= 19 and int(deadline) <= now_ms:
            del kept[headers.DEADLINE]
        return kept | {headers.MSG_ID: f"dead-{self.seq}-{int(self.when.timestamp() * 1000)}"}
