"""What the README shows of a result, between two markers.

It knows the markers and what fits between them. It reads and writes no file.
"""

from collections.abc import Iterator, Sequence

from result import Case, Entry, Result, Suite

from reporting import verdicts, words
from reporting.markdown import alarm, behind, table
from reporting.ratios import Standing, figure, standings

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def update(readme: str, result: Result, link: str) -> str:
    """The README with the block of this result in place of the one that it has.

    Args:
        readme: Its text.
        result: What to show.
        link: The report, as the README reaches it: "bench/results/2026-11-29-xeon-2-cores.md".

    Raises:
        ValueError: The markers are not there, once each and in order.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(
            f"the README has no place for the benchmark: put {BEGIN} and {END} on lines of their own, once"
        )
    return f"{before}{BEGIN}\n{block(result, link)}\n{END}{after}"


def block(result: Result, link: str) -> str:
    """Short Markdown: the picture, a table, the machine, and where it is behind."""
    return "\n\n".join(_blocks(result, link))


def _blocks(result: Result, link: str) -> Iterator[str]:
    yield from alarm(result)
    if any(standing.best for standing in standings(result)):
        yield f"![How many times as fast as the best peer]({link.removesuffix('.md')}/overview.svg)"
    heads = (
        "",
        "in process",
        "against the best library",
        "over the network",
        "against the best server",
        "of the limit",
    )
    yield table(heads, list(_rows(result)))
    yield _machine(result, link)
    yield "Where it is behind:"
    yield behind(result)


def _rows(result: Result) -> Iterator[Sequence[str]]:
    """The smallest and the largest case of each suite."""
    found = {(each.suite.name, each.case.name, each.field): each for each in standings(result)}
    for suite in result.suites:
        for case in dict.fromkeys((suite.cases[0].name, suite.cases[-1].name)):
            mine = {field: found.get((suite.name, case, field)) for field in ("library", "server")}
            ours = [standing.ours for standing in mine.values() if standing and standing.ours]
            share = words.share(max(entry.limit_share for entry in ours)) if ours else "–"
            cells = [cell for standing in mine.values() for cell in _cells(result, standing)]
            yield (f"{suite.title}, {case}", *cells, share)


def _cells(result: Result, standing: Standing | None) -> tuple[str, str]:
    """What ours takes, and how that compares with the best peer."""
    if standing is None:
        return "–", "not measured"
    ours = "**wrong**" if standing.ours is None else _figure(standing.ours, standing.suite)
    if standing.best is None:
        return ours, verdicts.no_ratio(result, standing)
    peer = _figure(_entry(standing.case, standing.best.peer), standing.suite)
    spread = words.spread(standing.best.low, standing.best.high)
    ratio = f"**{words.times(standing.best.value)}**" + (f" ({spread})" if spread else "")
    return ours, f"{ratio} {words.labels(result)[standing.best.peer]}, {peer}"


def _figure(entry: Entry, suite: Suite) -> str:
    return f"{words.number(figure(entry, suite))} {words.unit(suite)}"


def _entry(case: Case, contender: str) -> Entry:
    return next(entry for entry in case.entries if entry.contender == contender)


def _machine(result: Result, link: str) -> str:
    machine = result.machine
    ceilings = ", ".join(f"{words.dtype(each.dtype)} {each.gflops:,.0f}" for each in result.ceilings)
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.date[:10]}. {_computes(result)}More than 1× is faster. "
        f"The limit is what plain matrix products reach there ({ceilings} GFLOP/s); its column has the better of ours. "
        f"[All of it, and how it was measured]({link}); `make bench` repeats it."
    )


def _computes(result: Result) -> str:
    """In what ours computes, unless that is what everyone is compared with."""
    dtype = result.machine.dtype
    if dtype == "float32":
        return ""
    has_second = any(each.is_ours and each.is_second_choice and each.status == "ran" for each in result.contenders)
    second = "; the report has it in float32, too" if has_second else ""
    return f"Headrace computes in {words.precision(dtype)}{second}. "
