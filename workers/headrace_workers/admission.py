"""How much an online NATS stream may hold: about so many seconds of the fleet's work.

Knows the arithmetic (contracts/wire.md, section 9) and when a change is worth while. Pure. A full NATS stream refuses
what comes next, and that is how a client learns of it: so this number decides whom an overload turns away.
"""

from dataclasses import dataclass

from headrace_contracts import ModelSpec, limits
from headrace_contracts.queues import hand_size

from headrace_workers.config import WorkerConfig
from headrace_workers.fleet import View

# No less than so many of the largest messages, or so many bytes: chunks must fit, and workers have some in hand.
_FEWEST = 2
_LEAST_BYTES = 16 * 1024
# The broker keeps it in memory.
_MOST_BYTES = 64 * 1024 * 1024
# Of what callers wait for: a request that was let in has as long again to run and to come back.
_OF_PATIENCE = 0.5
# Of what stands: smaller changes are left alone, since rates are never quite the same.
_WORTH = 0.2


@dataclass(frozen=True, slots=True)
class Limit:
    """What one NATS stream may hold.

    Attributes:
        max_bytes: of all messages in it.
        reason: why so many, for people.
    """

    max_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What decides the limit, besides the fleet.

    Attributes:
        queue_s: seconds of the fleet's work.
        max_bytes: the limit that an operator has fixed; 0 leaves it to the fleet.
        max_msg_size: of the largest chunk, in bytes.
        share: of one NATS stream in all that is queued.
    """

    queue_s: float
    max_bytes: int
    max_msg_size: int
    share: float

    @classmethod
    def of(cls, spec: ModelSpec, config: WorkerConfig) -> "Admission":
        """As an operator wants it for a model."""
        return cls(
            queue_s=config.online_queue_s,
            max_bytes=config.online_max_bytes,
            max_msg_size=limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items),
            share=share_of_one(spec),
        )

    def limit(self, fleet: View, bytes_per_token: float, patience_s: float | None = None) -> Limit | None:
        """What each online NATS stream may hold; None where nothing tells, and what stands may stay.

        Args:
            fleet: who works, and how fast.
            bytes_per_token: what a token takes in the NATS stream.
            patience_s: what callers wait for; None where that is not known.
        """
        if self.max_bytes:
            return Limit(self.max_bytes, "set by --online-max-bytes")
        if fleet.rate is None:
            return None
        seconds = self.queue_s if patience_s is None else min(self.queue_s, _OF_PATIENCE * patience_s)
        wanted = round(fleet.rate * seconds * bytes_per_token * self.share)
        least = max(_LEAST_BYTES, _FEWEST * self.max_msg_size)
        reason = (
            f"{seconds:.2g} s of {_workers(len(fleet.workers))} {fleet.rate:,} tokens/s, at "
            f"{bytes_per_token:.1f} bytes a token"
        )
        if wanted < least:
            return Limit(least, f"the least; {reason} would be {wanted:,}")
        if wanted > _MOST_BYTES:
            return Limit(_MOST_BYTES, f"the most; {reason} would be {wanted:,}")
        return Limit(wanted, reason)

    def is_worth_while(self, present: int, wanted: int) -> bool:
        """Whether a limit is to be changed.

        Args:
            present: the max_bytes that stands; 0 or less is no limit.
            wanted: the one to set.
        """
        if self.max_bytes or present <= 0:
            return wanted != present
        return abs(wanted - present) > _WORTH * present


def share_of_one(spec: ModelSpec) -> float:
    """The share of one NATS stream in what is queued, where all of it is of one tenant.

    It takes the shards in turn, and has a hand of the queues of each. All tenants together may queue more, since there
    may be more queues than that; but none waits behind all of that.
    """
    return 1 / (spec.shards * hand_size(spec.queues))


def _workers(number: int) -> str:
    return "a worker that does" if number == 1 else f"{number} workers that do"
