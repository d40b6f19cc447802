"""Who else works for a model, and how fast all are together.

Knows what workers say of themselves, and that silence means gone. Pure; whoever calls it says what time it is, on a
clock that never jumps. Does not know NATS, nor what is done by it.
"""

from dataclasses import dataclass

from headrace_contracts import Presence
from headrace_contracts.messages import rate_together

# Of an interval: in that time everybody who is there has spoken.
_ALL_HEARD = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The fleet of a model as one of its workers sees it.

    Attributes:
        workers: who is there, in order of their names, this worker among them.
        rate: tokens/s that they do together, where one that does not know its rate counts as the mean of the others;
            None where nobody knows.
        sets_limits: whether it is for this worker to set what all share: the first name does. None does before it has
            heard who there is.
    """

    workers: tuple[str, ...]
    rate: int | None
    sets_limits: bool


@dataclass(frozen=True, slots=True)
class _Member:
    rate: int | None
    until_s: float


class Fleet:
    """The workers of one model that were heard of late."""

    def __init__(self, me: str, every_s: float) -> None:
        """Say who listens.

        Args:
            me: this worker's name.
            every_s: how often it announces itself; the others do so about as often.
        """
        self._me = me
        self._every_s = every_s
        self._others: dict[str, _Member] = {}
        self._all_heard_s: float | None = None

    def listen(self, now_s: float) -> None:
        """This worker hears the others from now on. What it knew before, while it heard nobody, may be long past."""
        self._others.clear()
        self._all_heard_s = now_s + _ALL_HEARD * self._every_s

    def hear(self, presence: Presence, now_s: float) -> None:
        """A worker announced itself."""
        if presence.worker == self._me:
            return
        if presence.leaving:
            self._others.pop(presence.worker, None)
        else:
            self._others[presence.worker] = _Member(presence.rate, now_s + presence.valid_s)

    def view(self, now_s: float, rate: int | None) -> View:
        """The fleet now.

        Args:
            now_s: the time.
            rate: what this worker does itself, in tokens/s; None while it does not know.
        """
        self._others = {name: member for name, member in self._others.items() if member.until_s > now_s}
        names = tuple(sorted((self._me, *self._others)))
        return View(
            workers=names,
            rate=rate_together([rate, *(member.rate for member in self._others.values())]),
            sets_limits=names[0] == self._me and self._all_heard_s is not None and now_s >= self._all_heard_s,
        )
