"""Who is faster than whom: ratios of one contender to another, and whom each of our ways has to be compared with.

It knows what counts as a fair comparison, and when a difference is none. It knows no words, no pictures and no files.

A ratio is always oriented so that more than 1 is faster. It is the median over the rounds of a run, each of which
measured both one after the other: a machine that slows down for a while slows both. Rows that are not right count for
nothing, on either side.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from result import Case, Contender, Entry, Result, Suite

Verdict = Literal["ahead", "level", "behind"]
Field = Literal["library", "server", "all"]
"""Who is compared: library, ours in its own process with the other libraries; server, ours over the network with the
other servers; all, ours over the network with whatever is fastest, network or not."""

FIELDS: tuple[Field, ...] = ("library", "server", "all")

# Less than this is not told apart, however well the rounds agree.
_MARGIN = 0.02
# Nor less than this, where there were fewer rounds than that.
_WIDE_MARGIN, _ENOUGH_ROUNDS = 0.1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as fast as a peer.

    Attributes:
        peer: Its name.
        value: More than 1 is faster than the peer.
        low: Of the rounds, the least favourable.
        high: Of the rounds, the most favourable.
        num_rounds: How many there were.
    """

    peer: str
    value: float
    low: float
    high: float
    num_rounds: int = _ENOUGH_ROUNDS

    @property
    def verdict(self) -> Verdict:
        """Ahead or behind only if every round says so and the difference is worth the word.

        Of two rounds both say the same by chance half of the time, so that after few the difference must be larger.
        """
        margin = _MARGIN if self.num_rounds >= _ENOUGH_ROUNDS else _WIDE_MARGIN
        if self.low > 1 and self.value > 1 + margin:
            return "ahead"
        if self.high < 1 and self.value * (1 + margin) < 1:
            return "behind"
        return "level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one of our ways stands in a case, within its field.

    Attributes:
        suite: Of the case.
        case: What had to be done.
        field: Who is compared.
        ours: The best of ours whose rows are right; None if there is none.
        ratios: To each peer whose rows are right, that with the best median first; empty if there is none, or no ours.
    """

    suite: Suite
    case: Case
    field: Field
    ours: Entry | None
    ratios: tuple[Ratio, ...]

    @property
    def best(self) -> Ratio | None:
        """To the best peer."""
        return self.ratios[0] if self.ratios else None

    @property
    def verdict(self) -> Verdict | None:
        """Ahead of all, level with one or more of them, or behind one or more; None where nothing was compared."""
        verdicts = {ratio.verdict for ratio in self.ratios}
        worst: tuple[Verdict, ...] = ("behind", "level", "ahead")
        return next((verdict for verdict in worst if verdict in verdicts), None)

    @property
    def decisive(self) -> Ratio | None:
        """The ratio that the verdict comes from: the least of those that share it; the best peer's if ahead of all."""
        if self.verdict in {None, "ahead"}:
            return self.best
        return min((ratio for ratio in self.ratios if ratio.verdict == self.verdict), key=lambda ratio: ratio.value)


def counts(entry: Entry) -> bool:
    """Whether it ran to the end with the right rows."""
    return entry.is_right and entry.took is not None


def figure(entry: Entry, suite: Suite) -> float:
    """What is compared in this suite: ms, or how many a second; 0 if it broke off."""
    if suite.better == "per_s":
        return entry.per_s
    return 0 if entry.took is None else entry.took.p50_ms


def best(entries: Sequence[Entry], suite: Suite) -> Entry | None:
    """That with the best median among those that count; the first of equals."""
    right = [entry for entry in entries if counts(entry)]
    if suite.better == "ms":
        return min(right, key=lambda entry: figure(entry, suite), default=None)
    return max(right, key=lambda entry: figure(entry, suite), default=None)


def ratio(mine: Entry, peer: Entry, suite: Suite) -> Ratio:
    """How many times as fast one is as the other: the median over rounds. Both must count."""
    if suite.better == "per_s":
        pairs = zip(mine.rounds_per_s, peer.rounds_per_s, strict=False)
    else:
        pairs = zip(peer.rounds_ms, mine.rounds_ms, strict=False)
    rounds = [over / under for over, under in pairs if over and under]
    # Of logarithms, so that an even number of rounds gives the reciprocal when both change places.
    value = math.exp(statistics.median(map(math.log, rounds))) if rounds else _overall(mine, peer, suite)
    low, high = min([*rounds, value]), max([*rounds, value])
    return Ratio(peer=peer.contender, value=value, low=low, high=high, num_rounds=len(rounds))


def _overall(mine: Entry, peer: Entry, suite: Suite) -> float:
    found = figure(peer, suite) / figure(mine, suite)
    return 1 / found if suite.better == "per_s" else found


def standings(result: Result) -> Iterator[Standing]:
    """Every case in every field in which one of ours took part, suite by suite, field by field.

    "all" is left out of a suite where no library was measured, as it would say what "server" says.
    """
    for suite in result.suites:
        for field in FIELDS:
            if _is_of_use(result, suite, field):
                yield from (_standing(result, suite, case, field) for case in suite.cases)


def behind(result: Result) -> Iterator[tuple[Standing, Ratio]]:
    """Every case and every peer that one of ours is behind, whether or not that peer is the best.

    What the field of servers has said is not said again of all.
    """
    servers = names(result, "server", ours=False)
    for standing in standings(result):
        for each in standing.ratios:
            if each.verdict == "behind" and not (standing.field == "all" and each.peer in servers):
                yield standing, each


def field_of(contender: Contender) -> Field:
    """The field in which it is compared with its like."""
    return "server" if contender.is_server else "library"


def names(result: Result, field: Field, *, ours: bool) -> frozenset[str]:
    """Who of ours, or of the peers, is compared in a field. Ours in "all" are those over the network."""
    own_field = "server" if ours and field == "all" else field
    found = [each for each in result.contenders if each.is_ours == ours and own_field in {field_of(each), "all"}]
    return frozenset(each.name for each in (_representatives(found) if ours else found))


def _representatives(ours: Sequence[Contender]) -> Sequence[Contender]:
    """Whoever is compared with peers: what users get if they ask for nothing; a second choice, if only that was run."""
    asked = [each for each in ours if each.status != "unasked"]
    return [each for each in asked if not each.is_second_choice] or asked


def entries(case: Case, of: frozenset[str]) -> list[Entry]:
    """Of these contenders, in order."""
    return [entry for entry in case.entries if entry.contender in of]


def _is_of_use(result: Result, suite: Suite, field: Field) -> bool:
    taking_part = {entry.contender for case in suite.cases for entry in case.entries}
    libraries = names(result, "library", ours=False)
    return bool(taking_part & names(result, field, ours=True)) and (field != "all" or bool(taking_part & libraries))


def _standing(result: Result, suite: Suite, case: Case, field: Field) -> Standing:
    mine = best(entries(case, names(result, field, ours=True)), suite)
    peers = [entry for entry in entries(case, names(result, field, ours=False)) if counts(entry)]
    peers.sort(key=lambda entry: figure(entry, suite), reverse=suite.better == "per_s")
    found = () if mine is None else tuple(ratio(mine, peer, suite) for peer in peers)
    return Standing(suite=suite, case=case, field=field, ours=mine, ratios=found)
