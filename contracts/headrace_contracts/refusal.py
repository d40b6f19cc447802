"""What nats-server refuses somebody: a subject, or the whole connection.

Knows how it says so: a line that comes by itself, not as an answer to what was sent (nats-server, server/client.go and
server/errors.go). Does not know who waits for an answer that will never come: connection.py does.
"""

import re
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from nats.errors import Error as NatsError

from headrace_contracts.access import OF_A_MODEL, roles_that_may

Action: TypeAlias = Literal["publish", "subscribe"]

_VIOLATION = re.compile(
    r"permissions violation for (publish|subscription)(?: with reply of|) ?(?:to )?\"([^\"]*)\"", re.IGNORECASE
)
_REFUSALS = (
    "authorization violation",
    "authorization failed",  # how nats-py spells the same
    "authentication expired",
    "authentication revoked",
    "authentication timeout",
)
_CREATE = "$js.api.stream.create."


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that the user may not do.

    Attributes:
        action: what.
        subject: on which; in small letters where nats-py has made them small.
    """

    action: Action
    subject: str

    @classmethod
    def read(cls, text: str) -> Self | None:
        """What the server says of it; None where it says something else."""
        found = _VIOLATION.search(text)
        if found is None:
            return None
        return cls("publish" if found[1].lower() == "publish" else "subscribe", found[2])

    def is_of(self, subject: str) -> bool:
        """Whether it is about this subject."""
        return self.subject.lower() == subject.lower()


class NotAllowed(NatsError):
    """Raised when nats-server does not let the user do what was asked; it will not be different the next time.

    Attributes:
        violation: what.
        user: name of the user in its access file; None without one.
    """

    def __init__(self, violation: Violation, user: str | None, role: str | None = None) -> None:
        who = "this user" if user is None else f"user {user!r}" + (f" (role {role})" if role else "")
        verb = "publish to" if violation.action == "publish" else "subscribe to"
        may = roles_that_may(violation.action, violation.subject)
        of_model = ", for that model" if OF_A_MODEL.intersection(may) else ""
        lacks = f"it takes role {' or '.join(may)}{of_model}" if may else "no role may"
        if violation.subject.lower().startswith(_CREATE):
            lacks = f"it is not there, so have an operator make it with `headrace provision`, or else {lacks}"
        super().__init__(
            f"nats-server does not let {who} {verb} {violation.subject}: {lacks}; `headrace access show` tells who may "
            "do what, and `headrace access new` gives it"
        )
        self.violation = violation
        self.user = user


def is_refusal(text: str) -> bool:
    """Whether the server says that it will not have this user at all, or no longer."""
    return any(words in text.lower() for words in _REFUSALS)
