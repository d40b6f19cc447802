"""What a worker says at its end of all that it was handed: each message has left it in one way.

It knows a worker's status; a worker's process writes it once, at its end. What must hold of it is in checker.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from headrace_contracts import PRIORITIES
from headrace_contracts.control import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Of one worker.

    Attributes:
        worker: Its name.
        failure: Why it ended; empty if it was told to, and drained.
        delivered: Messages that came in.
        answered: Of these, chunks whose result was sent.
        refused: With an error code that is neither of the next two.
        expired: Whose deadline had passed.
        cancelled: That their callers had given up.
        given_back: To the broker, by a nak.
        abandoned: That the broker could be told nothing of.
        letters: Of those refused, kept in HR_DEAD.
        held: Messages in hand at the end.
        queued: Of them, those that wait for a step.
        held_bytes: Of the purse of each class.
        credit_bytes: What the broker may still send, by class.
        steps: That ran to the end.
        failed_steps: That raised.
    """

    worker: str
    failure: str = ""
    delivered: int = 0
    answered: int = 0
    refused: int = 0
    expired: int = 0
    cancelled: int = 0
    given_back: int = 0
    abandoned: int = 0
    letters: int = 0
    held: int = 0
    queued: int = 0
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    credit_bytes: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    failed_steps: int = 0

    @classmethod
    def of(cls, status: Status, *, abandoned: int, failure: str = "") -> "Ledger":
        """Read it off what a worker says of itself; what it has abandoned is not a part of that."""
        totals, classes = status.totals, {priority: status.of(priority) for priority in PRIORITIES}
        return cls(
            worker=status.worker,
            failure=failure,
            delivered=totals.delivered,
            answered=totals.answered,
            refused=totals.refused,
            expired=totals.expired,
            cancelled=totals.cancelled,
            given_back=totals.given_back,
            abandoned=abandoned,
            letters=totals.dead_lettered,
            held=status.held_chunks,
            queued=sum(each.queued_chunks for each in classes.values()),
            held_bytes={priority: each.held_bytes for priority, each in classes.items()},
            credit_bytes={priority: each.credit_bytes for priority, each in classes.items()},
            steps=totals.steps,
            failed_steps=totals.failed_steps,
        )

    @property
    def settled(self) -> int:
        """Messages that have left it."""
        answers = self.answered + self.refused + self.expired + self.cancelled
        return answers + self.given_back + self.abandoned

    def write(self, file: Path) -> None:
        """Write it as a whole, or not at all."""
        part = file.with_name(f".{file.name}.part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
        part.replace(file)

    @classmethod
    def read(cls, file: Path) -> "Ledger":
        """Read one.

        Raises:
            OSError: Its worker was killed, or runs still.
        """
        return msgspec.json.decode(file.read_bytes(), type=cls)
