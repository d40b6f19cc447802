"""The tables of a report as rows of words, for a terminal and for a page alike.

It knows which columns there are and what is in a cell. It knows neither rich nor Markdown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from result import Case, Contender, Result, Suite

from reporting import words
from reporting.plots.parts import NAMES, milliseconds
from reporting.ratios import Field, best, counts, entries, figure, names, ratio

Grid = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads, and rows."""

Tone = Literal["ours", "peer", "limit", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a contender did in a case.

    Attributes:
        value: In the unit of the suite; "wrong" or "out" where it does not count.
        ratio: To the best peer of its kind; "best" for that peer itself; empty where there is none.
        spread: Of the ratio over the rounds; empty where there is no ratio, or one round.
        share: Of the limit; empty where it does not count.
    """

    value: str
    ratio: str = ""
    spread: str = ""
    share: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a table: its name, how it is meant, and a cell a case."""

    name: str
    tone: Tone
    cells: tuple[Cell, ...]


def groups(result: Result, suite: Suite) -> Iterator[tuple[str, list[Row]]]:
    """The contenders of a suite: those in process, then those over the network, each with its heading."""
    for field, heading in (("library", "in process"), ("server", "over the network")):
        rows = list(_rows(result, suite, "library" if field == "library" else "server"))
        if rows:
            yield heading, rows


def limits(result: Result, suite: Suite) -> Iterator[Row]:
    """What a call needs, what that is at the measured rate, and how much of that rate is reached."""
    yield Row(
        name="GFLOP of a call", tone="limit", cells=_values(words.number(case.flop / 1e9) for case in suite.cases)
    )
    fastest = max(result.ceilings, key=lambda ceiling: ceiling.gflops, default=None)
    if fastest:
        rate = f"{fastest.gflops:,.0f} GFLOP/s, {words.dtype(fastest.dtype)}"
        at_limit = _values(words.number(words.at_limit(case, suite)) for case in suite.cases)
        yield Row(name=f"{words.unit(suite)} at {rate}", tone="limit", cells=at_limit)
    for who, ours in (("Headrace", True), ("the best peer", False)):
        of = names(result, "library", ours=ours) | names(result, "server", ours=ours)
        shares = [_best_share(case, of) for case in suite.cases]
        if any(shares):
            yield Row(name=f"share that {who} reaches", tone="limit", cells=_values(shares))


def faults(result: Result, suite: Suite) -> Iterator[str]:
    """Everything that does not count, and why."""
    labels = words.labels(result)
    for case in suite.cases:
        for entry in case.entries:
            if not counts(entry):
                yield f"{labels[entry.contender]}, {case.name}: {words.fault(entry, result.bound)}"


def shapes(result: Result) -> Grid:
    """Steps of the engine alone."""
    rows: list[Sequence[str]] = [
        (
            each.shape,
            f"{each.sequences:,}",
            f"{each.tokens:,}",
            words.number(each.step.p50_ms),
            words.number(each.step.p90_ms),
            f"{each.tokens_per_s:,.0f}",
            words.number(each.flop / 1e9),
            words.share(each.limit_share),
        )
        for each in result.shapes
    ]
    return ("shape", "sequences", "tokens", "median ms", "p90 ms", "tokens/s", "GFLOP", "of the limit"), rows


def breakdown(result: Result) -> Grid:
    """Where a call of the whole path spends its time: heads, and rows."""
    rows: list[Sequence[str]] = [
        (found.case, str(found.clients), words.number(found.total), *map(words.number, milliseconds(found)))
        for found in result.parts
    ]
    return ("case", "clients", "ms", *NAMES), rows


def message_path(result: Result) -> Grid:
    """What a chunk costs without a model."""
    found = () if result.economics is None else result.economics.path
    processes = list(dict.fromkeys(process for each in found for process in each.cpu_us_per_chunk))
    rows: list[Sequence[str]] = [
        (
            each.case,
            str(each.clients),
            "" if each.call is None else words.number(each.call.p50_ms),
            f"{each.chunks_per_s:,.0f}",
            f"{each.tokens_per_s:,.0f}",
            *(words.number(each.cpu_us_per_chunk.get(process, 0)) for process in processes),
            "" if each.cpu_share is None else words.share(each.cpu_share),
        )
        for each in found
    ]
    heads = ("case", "clients", "ms a call", "chunks/s", "tokens/s", *(f"{process} µs" for process in processes))
    return (*heads, "of the engine"), rows


def growth(result: Result) -> Grid:
    """Throughput with more workers."""
    found = () if result.economics is None else result.economics.growth
    engines = {"null": "answers at once", "real": "the model"}
    rows: list[Sequence[str]] = [
        (engines[each.engine], str(each.workers), words.number(each.chunks_per_s), f"{each.tokens_per_s:,.0f}")
        for each in found
    ]
    return ("engine", "workers", "chunks/s", "tokens/s"), rows


def backlog(result: Result) -> Grid:
    """What waiting chunks cost."""
    found = () if result.economics is None else result.economics.backlog
    rows: list[Sequence[str]] = [
        (
            f"{each.chunks:,}",
            f"{each.publish_per_s:,.0f}",
            f"{each.drain_per_s:,.0f}",
            words.number(each.broker_cpu_us),
            words.number(each.worker_cpu_us),
            words.number(each.broker_memory_mib),
            words.number(each.broker_disk_mib),
        )
        for each in found
    ]
    return ("chunks waiting", "in /s", "out /s", "broker µs", "worker µs", "broker MiB", "disk MiB"), rows


def _taking_part(result: Result, suite: Suite) -> Iterator[Contender]:
    seen = {entry.contender for case in suite.cases for entry in case.entries}
    return (contender for contender in result.contenders if contender.name in seen)


def _rows(result: Result, suite: Suite, field: Field) -> Iterator[Row]:
    peers = names(result, field, ours=False)
    for contender in _taking_part(result, suite):
        if contender.is_server == (field == "server"):
            cells = tuple(_cell(suite, case, contender, peers) for case in suite.cases)
            yield Row(name=contender.label, tone="ours" if contender.is_ours else "peer", cells=cells)
            if contender.is_ours and contender.is_server:
                yield from _against_all(result, suite, contender)


def _against_all(result: Result, suite: Suite, contender: Contender) -> Iterator[Row]:
    """Of one of ours over the network: to the best of all, unless only servers took part."""
    peers = names(result, "all", ours=False)
    if any(entries(case, peers - names(result, "server", ours=False)) for case in suite.cases):
        cells = tuple(replace(_cell(suite, case, contender, peers), value="", share="") for case in suite.cases)
        yield Row(name="  against the best of all", tone="ours", cells=cells)


def _cell(suite: Suite, case: Case, contender: Contender, peers: frozenset[str]) -> Cell:
    entry = next(iter(entries(case, frozenset({contender.name}))), None)
    if entry is None:
        return Cell(value="")
    if not counts(entry):
        return Cell(value="out" if entry.reason or entry.divergence is None else "wrong")
    value, share = words.number(figure(entry, suite)), words.share(entry.limit_share)
    peer = best(entries(case, peers), suite)
    if peer is None or entry is peer:
        return Cell(value=value, ratio="" if peer is None else "best", share=share)
    found = ratio(entry, peer, suite)
    return Cell(value=value, ratio=words.times(found.value), spread=words.spread(found.low, found.high), share=share)


def _values(values: Iterable[str]) -> tuple[Cell, ...]:
    return tuple(Cell(value=value) for value in values)


def _best_share(case: Case, of: frozenset[str]) -> str:
    shares = [entry.limit_share for entry in entries(case, of) if counts(entry)]
    return words.share(max(shares)) if shares else ""


def widths(rows: Sequence[Row], column: int) -> tuple[int, int]:
    """Of the values and of the ratios in a column: the longest of each."""
    cells = [row.cells[column] for row in rows]
    return max(len(cell.value) for cell in cells), max(len(cell.ratio) for cell in cells)
