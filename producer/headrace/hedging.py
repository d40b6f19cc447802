"""When a query is late, and whether it may be asked a second time.

Pure. Knows reply times by kind, and the budget. Does not know how a copy travels: exchange.py does.
"""

from dataclasses import dataclass

from headrace.errors import InputError
from headrace.options import check_share
from headrace.outgoing import Outgoing
from headrace.reply_times import ReplyTimes
from headrace.retry_budget import RetryBudget

# Hedges that a good time may save up, so that a fleet that slows down as a whole is not sent a second load at once.
_MOST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedging:
    """How late queries are asked a second time; for Client.connect.

    Attributes:
        quantile: a query is late when it takes longer than this share of the last ones like it.
        share: of the queries that may be asked a second time, at most.

    Raises:
        InputError: one of them is no share.
    """

    quantile: float = 0.95
    share: float = 0.05

    def __post_init__(self) -> None:
        check_share("quantile of hedging", self.quantile)
        check_share("share of hedging", self.share)


def check_hedging(hedging: object) -> None:
    """Refuse what does not say how to hedge; None has nothing hedged.

    Raises:
        InputError: it is another thing.
    """
    if not (hedging is None or isinstance(hedging, Hedging)):
        raise InputError(f"hedging is {hedging!r}: pass headrace.Hedging(), or None for none")


class Hedges:
    """What a client knows of its queries, and how many hedges it may still make."""

    def __init__(self, hedging: Hedging) -> None:
        self._hedging = hedging
        self._times: dict[tuple[str, int], ReplyTimes] = {}
        # No reserve, and none by time: a share is a share.
        self._budget = RetryBudget(share=hedging.share, reserve=0, refill_per_s=0, most=_MOST)

    def begin(self, chunk: Outgoing) -> float | None:
        """A query is asked; gives the seconds after which it is late, or None while that is not known."""
        self._budget.pay_in()
        return self._times_of(chunk).late_s

    def end(self, chunk: Outgoing, seconds: float) -> None:
        """Its reply came, from the first copy or a second, after so many seconds."""
        self._times_of(chunk).add(seconds)

    def take(self) -> bool:
        """Take one hedge, if there is one."""
        return self._budget.take(0)

    def _times_of(self, chunk: Outgoing) -> ReplyTimes:
        # Twice the tokens take about twice the time: sizes apart, a long query is not late for being long.
        kind = (chunk.model, chunk.tokens.bit_length())
        times = self._times.get(kind)
        if times is None:
            times = self._times[kind] = ReplyTimes(self._hedging.quantile)
        return times
