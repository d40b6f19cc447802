"""Proves from histories and ledgers that a fleet has kept its word, or names each call of which it has not.

Pure. It knows what is promised: each call ends, once, in time, with the vectors of its texts or an error that makes
sense; each message that a worker was handed has left it in one way. It does not know what was broken meanwhile, but for
what that allows.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace import HeadraceError, errors

from survival.history import CANCELLED, NEVER, RESULT, Asked, Ended, History
from survival.ledger import Ledger

# Of a fleet that is too slow or too small for the moment, any caller may hear.
_ALWAYS = frozenset({"Overloaded", "DeadlineExceeded"})
_OURS = frozenset(
    name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, HeadraceError)
)
# Unix ms are whole ones, and event loops wake up early by as much as a clock's tick.
_EARLY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Somebody stood still, or his clock was set: what took place meanwhile may have taken that much longer.

    Attributes:
        began_s: When, by the monotonic clock.
        ended_s: Until when.
        caller: Whose history; None is everybody's.
    """

    began_s: float
    ended_s: float
    caller: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What a run may have in it for what was done to it.

    Attributes:
        grace_s: That an end may come after its time, on a machine that has other things to do.
        freezes: Of callers.
        killed: Callers that were killed: of these the last calls have no end.
        errors: Names of exceptions, and codes of errors, that make sense besides a deadline and an overload, such as
            `non_finite` where an engine gave what is no number.
        is_skewed: Whether wall clocks differed: then a worker may take a call for too late which its caller does not.
    """

    grace_s: float = 2.0
    freezes: Sequence[Freeze] = ()
    killed: Collection[str] = ()
    errors: Collection[str] = ()
    is_skewed: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without a single success, while somebody asked."""

    began_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.ended_s - self.began_s


def check(histories: Iterable[History], digests: Sequence[str], allowed: Allowed | None = None) -> list[str]:
    """What is wrong with what callers got: a sentence for each thing, with the name of its call; none if all is well.

    Args:
        histories: Of all callers.
        digests: Of the vectors that their texts must have, in the order of the plans' texts.
        allowed: What the run may have in it.
    """
    allowed = allowed or Allowed()
    histories = list(histories)
    names = Counter(asked.call for history in histories for asked in history.asked)
    twice = [f"{name} was asked {times} times: names are to be unique" for name, times in names.items() if times > 1]
    return [*twice, *(found for history in histories for found in _Check(history, digests, allowed).violations())]


class _Check:
    """Of one history."""

    def __init__(self, history: History, digests: Sequence[str], allowed: Allowed) -> None:
        self._history = history
        self._digests = digests
        self._allowed = allowed
        self._freezes = [each for each in allowed.freezes if each.caller in {None, history.caller}]

    def violations(self) -> Iterator[str]:
        history = self._history
        is_killed = history.caller in self._allowed.killed
        if history.stopped_s is None and not is_killed:
            yield f"{history.caller} never said that it had waited for all its calls"
        ends: dict[str, list[Ended]] = defaultdict(list)
        for end in history.ended:
            ends[end.call].append(end)
        for asked in history.asked:
            found = ends.pop(asked.call, [])
            if not found and not is_killed:
                yield f"{asked.call} has no end"
            if len(found) > 1:
                yield f"{asked.call} ended {len(found)} times: {', '.join(end.end for end in found)}"
            for end in found:
                yield from self._of_end(asked, end)
        for call in ends:
            yield f"{call} ended, and was never asked"

    def _of_end(self, asked: Asked, end: Ended) -> Iterator[str]:
        took_s = end.at_s - asked.at_s
        if end.end == NEVER:
            yield f"{asked.call} had {asked.timeout_s:g} s and did not end in {took_s:.1f} s"
            return
        limit_s = asked.timeout_s if asked.patience_s is None else min(asked.timeout_s, asked.patience_s)
        late_s = took_s - limit_s - self._frozen_s(asked.at_s, end.at_s)
        if late_s > self._allowed.grace_s:
            yield f"{asked.call} had {limit_s:g} s and ended ({end.end}) {late_s:.1f} s after them"
        if end.end == RESULT:
            yield from self._of_result(asked, end)
        elif end.end != CANCELLED:
            yield from self._of_error(asked, end)
        elif asked.patience_s is None:
            yield f"{asked.call} was cancelled, and not by its caller"

    def _of_error(self, asked: Asked, end: Ended) -> Iterator[str]:
        took_s = end.at_s - asked.at_s
        if end.end not in _OURS:
            yield f"{asked.call} raised what is no error of ours: {end.end}: {end.text}"
        elif not self._makes_sense(end):
            yield f"{asked.call} raised {end.end}, which makes no sense for it: {end.text}"
        elif end.end == "DeadlineExceeded" and took_s < asked.timeout_s - _EARLY_S and not self._allowed.is_skewed:
            yield f"{asked.call} had {asked.timeout_s:g} s and was told after {took_s:.2f} s that they were over"

    def _of_result(self, asked: Asked, end: Ended) -> Iterator[str]:
        if len(end.digests) != len(asked.texts):
            yield f"{asked.call} asked for {len(asked.texts)} vectors and got {len(end.digests)}"
            return
        for place, (text, found) in enumerate(zip(asked.texts, end.digests, strict=True)):
            if place in end.errors:
                if not self._is_allowed(end.errors[place]):
                    yield f"{asked.call} got no vector of text {text}, without sense: {end.errors[place]}"
            elif found != self._digests[text]:
                others = [number for number, digest in enumerate(self._digests) if digest == found]
                whose = f"that of text {others[0]}" if others else "that of none of the texts"
                yield f"{asked.call} got a wrong vector of text {text}: {whose}"

    def _makes_sense(self, end: Ended) -> bool:
        if end.errors:
            return all(map(self._is_allowed, end.errors.values()))
        return bool({end.end, end.code} & {*_ALWAYS, *self._allowed.errors})

    def _is_allowed(self, error: str) -> bool:
        return error.partition(":")[0] in self._allowed.errors

    def _frozen_s(self, first_s: float, last_s: float) -> float:
        """Seconds of freezes between two moments; those that overlap count once."""
        frozen_s, reached_s = 0.0, first_s
        for each in sorted(self._freezes, key=lambda freeze: freeze.began_s):
            began_s, ended_s = max(each.began_s, reached_s), min(each.ended_s, last_s)
            if ended_s > began_s:
                frozen_s, reached_s = frozen_s + ended_s - began_s, ended_s
        return frozen_s


def gaps(histories: Iterable[History]) -> list[Gap]:
    """The times between one success of anybody and the next, the longest first, while there was anybody who asked.

    The time before the first success and after the last one count: from the first call on, up to the last end.
    """
    histories = list(histories)
    asked = sorted(each.at_s for history in histories for each in history.asked)
    ends = sorted(each.at_s for history in histories for each in history.ended)
    good = sorted(each.at_s for history in histories for each in history.ended if each.end == RESULT)
    if not asked:
        return []
    moments = [asked[0], *good, max([asked[-1], *ends])]
    found = []
    for first_s, last_s in pairwise(moments):
        began_s = first_s
        if bisect_right(asked, first_s) <= bisect_right(ends, first_s):  # nobody waited then
            began_s = asked[next_one] if (next_one := bisect_right(asked, first_s)) < len(asked) else last_s
        if began_s < last_s:
            found.append(Gap(began_s, last_s))
    return sorted(found, key=lambda gap: gap.seconds, reverse=True)


def check_ledger(ledger: Ledger) -> list[str]:
    """What is wrong with a worker's ledger: a sentence for each thing; none if all is well."""
    return list(_of_ledger(ledger))


def _of_ledger(ledger: Ledger) -> Iterator[str]:
    if ledger.delivered != ledger.settled:
        yield f"{ledger.worker} was handed {ledger.delivered} messages and has settled {ledger.settled}: {ledger}"
    if ledger.held:
        yield f"{ledger.worker} ended with {ledger.held} messages in hand"
    if ledger.queued and not ledger.failure:
        yield f"{ledger.worker} ended with {ledger.queued} chunks that waited for a step"
    for what, purses in (("held", ledger.held_bytes), ("credit", ledger.credit_bytes)):
        for priority, num_bytes in purses.items():
            if num_bytes:
                yield f"{ledger.worker} ended with {num_bytes} bytes of {what} in its {priority} purse"
