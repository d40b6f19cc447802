"""Who works for a model, as they say themselves, and how fast they are together.

Knows that silence means gone, as contracts/wire.md has it. Pure; whoever calls it says what time it is, on a clock that
never jumps. Does not know NATS.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace_contracts import Presence
from headrace_contracts.messages import rate_together

# Within one and a half of the intervals that workers announce themselves in by default, all who are there have spoken.
LISTEN_S = 3.0


@dataclass(frozen=True, slots=True)
class Member:
    """One worker that is there.

    Attributes:
        worker: its name.
        rate: tokens/s that it can do; None while it does not know.
        heard_s: seconds since it was heard.
    """

    worker: str
    rate: int | None
    heard_s: float


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers of a model.

    Attributes:
        members: those that are there, in order of their names.
        last_rate: tokens/s of all that were there when somebody last knew; None where nobody ever did.
    """

    members: tuple[Member, ...] = ()
    last_rate: int | None = None

    @property
    def rate(self) -> int | None:
        """Tokens/s that they do together, where one that does not know counts as the mean; None where nobody knows."""
        return rate_together([member.rate for member in self.members])

    def seconds_for(self, tokens: int) -> float | None:
        """How long they take for so many tokens; where nobody is there now, how long the last ones would have taken.

        Infinite where nobody was ever heard; None where somebody is there, and nobody knows how fast.
        """
        if not tokens:
            return 0.0
        rate = self.rate or self.last_rate
        if rate:
            return tokens / rate
        return None if self.members else float("inf")


@dataclass(frozen=True, slots=True)
class _Heard:
    presence: Presence
    at_s: float


class Roster:
    """The workers of all models that were heard of late."""

    def __init__(self, listen_s: float = LISTEN_S) -> None:
        """Nobody was heard yet; all will have been after so many seconds of listening."""
        self._listen_s = listen_s
        self._heard: defaultdict[str, dict[str, _Heard]] = defaultdict(dict)
        self._last_rates: dict[str, int] = {}
        self._since_s: float | None = None

    def listen(self, now_s: float) -> None:
        """From now on workers are heard; who was before falls silent in time, if gone."""
        self._since_s = now_s

    def missing_s(self, now_s: float) -> float:
        """Seconds until everybody who is there has been heard; 0 from then on."""
        return self._listen_s if self._since_s is None else max(0.0, self._since_s + self._listen_s - now_s)

    def hear(self, model: str, presence: Presence, now_s: float) -> None:
        """A worker announced itself, or that it leaves."""
        if presence.leaving:
            self._heard[model].pop(presence.worker, None)
        else:
            self._heard[model][presence.worker] = _Heard(presence, now_s)
        self._crew(model, now_s)

    def crews(self, models: Collection[str], now_s: float) -> Mapping[str, Crew]:
        """The crews of these models, and of all others that somebody works for.

        What is remembered of others is forgotten.
        """
        crews = {model: self._crew(model, now_s) for model in sorted({*models, *self._heard})}
        crews = {model: crew for model, crew in crews.items() if crew.members or model in models}
        self._heard = defaultdict(dict, {model: self._heard[model] for model in crews})
        self._last_rates = {model: rate for model, rate in self._last_rates.items() if model in crews}
        return crews

    def _crew(self, model: str, now_s: float) -> Crew:
        heard_of = self._heard[model].items()
        there = {name: heard for name, heard in heard_of if heard.at_s + heard.presence.valid_s > now_s}
        self._heard[model] = there
        members = tuple(Member(name, heard.presence.rate, now_s - heard.at_s) for name, heard in sorted(there.items()))
        if rate := rate_together([member.rate for member in members]):
            self._last_rates[model] = rate
        return Crew(members, self._last_rates.get(model))
