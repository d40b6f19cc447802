"""What a result says, as plain sentences that nobody writes by hand.

It knows how to say ahead, level and behind, and what to say where nothing was compared. It knows no layout.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from result import Calibrated, Result, Suite

from reporting import words
from reporting.ratios import Field, Ratio, Standing, Verdict, behind, counts, names, standings

T = TypeVar("T")

WAYS: dict[Field, str] = {
    "library": "In process",
    "server": "Over the network",
    "all": "Over the network, against everyone",
}
_PEERS: dict[Field, str] = {"library": "library", "server": "server", "all": "peer"}
_NO_PEERS = "no peer took part: `make bench-peers` installs them"


def alarms(result: Result) -> Iterator[str]:
    """What must be read before anything else: where our own rows are wrong, or we broke off."""
    ours = {contender.name for contender in result.contenders if contender.is_ours}
    for contender in result.contenders:
        if contender.is_ours and contender.status == "failed":
            yield f"{contender.label} failed: {contender.reason}"
    for suite in result.suites:
        for case in suite.cases:
            for entry in case.entries:
                if entry.contender in ours and not counts(entry):
                    label = words.labels(result)[entry.contender]
                    yield f"{suite.title}, {case.name}: {label} {words.fault(entry, result.bound)}"


def sentences(result: Result, suite: Suite) -> Iterator[tuple[str, str]]:
    """Of one suite: each of our ways, and how it stands."""
    if not has_peers(result):
        yield "Headrace alone", _NO_PEERS
        return
    for field, group in _by_field(result, suite):
        yield WAYS[field], _sentence(result, field, group)


def where_behind(result: Result) -> Iterator[tuple[str, str]]:
    """For each suite and way that lost to someone: every peer that is faster, whether or not it is the fastest."""
    rows = ((f"{row.suite.title}, {_lower(WAYS[row.field])}", (row, ratio)) for row, ratio in behind(result))
    for where, found in _grouped(rows):
        peers = _grouped((words.labels(result)[ratio.peer], (row, ratio)) for row, ratio in found)
        yield where, f"behind {'; behind '.join(_losses(peer, losses) for peer, losses in peers)}"


def nowhere(result: Result) -> str:
    """What to say if that list is empty."""
    return "Nowhere in this run." if has_peers(result) else f"Unknown: {_NO_PEERS}."


def calibration(found: Calibrated) -> str:
    """What the worker's budgets are, and why, in a few sentences."""
    quadratic = (
        "at more tokens than a text may have"
        if found.quadratic_length is None
        else f"at {found.quadratic_length:,} tokens a text"
    )
    return (
        f"A step takes {words.number(found.a_ms)} ms, {words.number(found.b_us)} µs a token, and "
        f"{words.number(found.c_ns)} ns for each token and each token of its text: the quadratic part is as large as "
        f"the linear one {quadratic}. From {found.saturation_tokens:,} tokens on, more of them gain little. For a "
        f"target of {words.number(found.target_ms)} ms, `headrace calibrate` picked steps of {found.step_tokens:,} "
        f"tokens and {found.budget_tokens:,} in hand."
    )


def has_peers(result: Result) -> bool:
    """Whether anyone else took part."""
    peers = {contender.name for contender in result.contenders if not contender.is_ours}
    return any(entry.contender in peers for suite in result.suites for case in suite.cases for entry in case.entries)


def no_ratio(result: Result, standing: Standing) -> str:
    """Why there is none."""
    if not has_peers(result):
        return _NO_PEERS
    if standing.ours is None:
        return "Headrace gave no right rows"
    if not names(result, standing.field, ours=False) & {entry.contender for entry in standing.case.entries}:
        return f"no {_PEERS[standing.field]} took part"
    return f"no {_PEERS[standing.field]} gave right rows"


def _by_field(result: Result, suite: Suite) -> Iterator[tuple[Field, list[Standing]]]:
    mine = [standing for standing in standings(result) if standing.suite is suite]
    for field, group in groupby(mine, key=lambda standing: standing.field):
        yield field, list(group)


def _sentence(result: Result, field: Field, group: Sequence[Standing]) -> str:
    verdicts: tuple[Verdict, ...] = ("ahead", "level", "behind")
    parts = [part for verdict in verdicts for part in _parts(result, field, group, verdict)]
    for reason, rows in _grouped((no_ratio(result, row), row) for row in group if row.verdict is None):
        parts.append(reason if len(rows) == len(group) else f"{reason}{_where(rows)}")
    return "; ".join(parts)


def _parts(result: Result, field: Field, group: Sequence[Standing], verdict: Verdict) -> Iterator[str]:
    rows = [standing for standing in group if standing.verdict == verdict]
    if not rows:
        return
    if verdict == "ahead":
        yield f"ahead of every {_PEERS[field]}{_where(rows)} ({_range([row.decisive for row in rows])})"
        return
    preposition = "level with" if verdict == "level" else "behind"
    for peer, mine in _grouped((row.decisive.peer, row) for row in rows if row.decisive):
        ratios = _range([row.decisive for row in mine])
        yield f"{preposition} {words.labels(result)[peer]}{_where(mine)} ({ratios})"


def _losses(peer: str, losses: Sequence[tuple[Standing, Ratio]]) -> str:
    rows = [standing for standing, _ in losses]
    return f"{peer}{_where(rows)} ({_range([ratio for _, ratio in losses])})"


def _grouped(pairs: Iterable[tuple[str, T]]) -> Iterator[tuple[str, list[T]]]:
    """By the first, in the order in which each comes first."""
    groups: dict[str, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    yield from groups.items()


def _where(rows: Sequence[Standing]) -> str:
    """In which cases of their suite; nothing if that has only one."""
    num_cases = len(rows[0].suite.cases)
    if num_cases == 1:
        return ""
    return " in every case" if len(rows) == num_cases else f" at {words.cases([row.case.name for row in rows])}"


def _range(ratios: Sequence[Ratio | None]) -> str:
    values = sorted(ratio.value for ratio in ratios if ratio)
    least, most = words.times(values[0]), words.times(values[-1])
    return least if least == most else f"{least} to {most}"


def _lower(way: str) -> str:
    return way[0].lower() + way[1:]
