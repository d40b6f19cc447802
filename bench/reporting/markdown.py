"""A result as one page with pictures: DATE-MACHINE.md and a folder DATE-MACHINE beside it.

It knows Markdown and what a reader who doubts wants to know. It knows no clock: the same result gives the same page.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from result import Result, Suite

from reporting import plots, tables, verdicts, words
from reporting.names import stem
from reporting.tables import Cell, Grid, Row

_ALTS = {
    "overview": "How many times as fast as the best peer, case by case",
    "concurrency": "Latency and calls a second against concurrent clients",
    "ceiling": "Share of the matrix limit that each contender reaches",
    "calibration": "Tokens a second against the tokens of a batch",
    "parts": "Where a call's time goes",
    "backlog": "What waiting work costs",
}


def write(result: Result, folder: Path) -> Path:
    """Write the page and its pictures into a folder; return the page."""
    name = stem(result)
    drawn = plots.draw(result, folder / name)
    file = folder / f"{name}.md"
    file.write_text(page(result, drawn), "utf-8")
    return file


def page(result: Result, drawn: Iterable[str]) -> str:
    """The page.

    Args:
        result: What was found.
        drawn: The names of its pictures.
    """
    return "\n\n".join(_blocks(result, frozenset(drawn))) + "\n"


def _blocks(result: Result, drawn: frozenset[str]) -> Iterator[str]:
    machine = result.machine
    yield f"# Benchmark, {machine.date[:10]}: {machine.processor}, {machine.cores} cores"
    yield from alarm(result)
    yield _summary(result)
    yield from _picture(result, drawn, "overview")
    yield "## Where it is behind"
    yield behind(result)
    for suite in result.suites:
        yield from _suite(result, suite, drawn)
    yield "## The limit"
    yield _limit(result)
    yield from _picture(result, drawn, "ceiling")
    yield from _inside(result, drawn)
    yield from _who(result)
    yield "## How it was measured"
    yield _method(result)
    yield "## The machine"
    yield _machine(result)


def alarm(result: Result) -> Iterator[str]:
    """What must be read first, if there is such a thing."""
    alarms = list(verdicts.alarms(result))
    if alarms:
        lines = [f"> * {text(each)}" for each in alarms]
        yield "\n".join(
            ["> [!CAUTION]", "> **Headrace is not right in this run.** What is not right counts for nothing.", *lines]
        )


def behind(result: Result) -> str:
    """The list, or that there is nothing to list."""
    lines = [f"* **{where}**: {text(said)}." for where, said in verdicts.where_behind(result)]
    return "\n".join(lines) or verdicts.nowhere(result)


def text(words_: str) -> str:
    """On one line, and harmless in a table."""
    return " ".join(words_.split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], others: str = "---:") -> str:
    """The first column to the left, the others to the right, or as they are told."""
    lines = [heads, ["---", *[others] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(text, line))} |" for line in lines)


def _summary(result: Result) -> str:
    sentences = [
        f"* **{suite.title}**: "
        + ". ".join(f"{way}: {text(said)}" for way, said in verdicts.sentences(result, suite))
        + "."
        for suite in result.suites
    ]
    lead = (
        "How many times as fast as the best peer: more than 1× is faster. A ratio is the median over rounds in which "
        "both ran one after the other; ahead and behind are said only where every round agrees. *In process* is "
        "compared with libraries, *over the network* with servers, and then with everyone, though a library needs no "
        "network."
    )
    return "\n".join([lead, "", *sentences])


def _suite(result: Result, suite: Suite, drawn: frozenset[str]) -> Iterator[str]:
    yield f"## {suite.title}"
    yield f"{text(suite.what)} Each cell: {_cell_words(suite)}."
    if suite.name == "high-concurrency":
        yield from _picture(result, drawn, "concurrency")
    rows: list[Sequence[str]] = []
    for heading, group in tables.groups(result, suite):
        rows.append([f"*{heading}*", *[""] * len(suite.cases)])
        rows += [_row(row) for row in group]
    rows.append(["*limit*", *[""] * len(suite.cases)])
    rows += [_row(row) for row in tables.limits(result, suite)]
    yield table([words.unit(suite), *(case.name for case in suite.cases)], rows)
    faults = list(tables.faults(result, suite))
    if faults:
        yield "\n".join(["Counted for nothing:", "", *(f"* {text(fault)}" for fault in faults)])


def _cell_words(suite: Suite) -> str:
    value = "median ms" if suite.better == "ms" else "calls a second"
    return f"{value}, ratio to the best peer of its kind (of ours, from which round to which), share of the limit"


def _row(row: Row) -> Sequence[str]:
    mark = "**" if row.tone == "ours" else ""
    name = f"↳ {row.name.strip()}" if row.name.startswith(" ") else f"{mark}{row.name}{mark}"
    return [name, *(_cell(cell, mark) for cell in row.cells)]


def _cell(cell: Cell, mark: str) -> str:
    # The spread is what a reader asks of our ratios; for everyone it would be too much to read.
    spread = f" ({cell.spread})" if cell.spread and mark else ""
    ratio = f"{mark}{cell.ratio}{mark}{spread}" if cell.ratio else ""
    return " · ".join(part for part in (cell.value, ratio, cell.share) if part)


def _limit(result: Result) -> str:
    lines = [
        f"* {words.dtype(each.dtype)}: {each.gflops:,.0f} GFLOP/s in a product of {each.product[0]:,} × "
        f"{each.product[1]:,} by {each.product[1]:,} × {each.product[2]:,}, which is {each.tokens_per_s:,.0f} tokens/s "
        "of linear layers"
        for each in result.ceilings
    ]
    best = "fastest" if len(result.ceilings) > 2 else "faster"
    said = (
        "What plain matrix products reach on this machine, measured in the same run, at their fastest. A call's "
        f"operations (linear layers and attention) at the {best} of these rates is its limit; a share is the limit "
        "against what was measured, tokenising and all."
    )
    return "\n".join([said, "", *lines])


def _inside(result: Result, drawn: frozenset[str]) -> Iterator[str]:
    for name, reason in result.unmeasured.items():
        yield f"Not measured: {text(name)}: {text(reason)}."
    if result.shapes:
        yield "## The engine alone"
        yield from _grid("Batches of ids in, rows out, in one process.", tables.shapes(result))
    if result.parts:
        yield "## Where a call's time goes"
        yield (
            "Over the network; medians in ms. Tokenising and publishing were measured on their own, queue and run are "
            "what the worker says, reply is what is left."
        )
        yield from _picture(result, drawn, "parts")
        yield table(*tables.breakdown(result))
    if result.economics:
        yield "## What everything but the model costs"
        yield from _economics(result, drawn)
    if result.calibrated:
        yield "## Calibration"
        yield verdicts.calibration(result.calibrated)
        yield from _picture(result, drawn, "calibration")


def _economics(result: Result, drawn: frozenset[str]) -> Iterator[str]:
    for said, grid in (
        (
            "The message path alone, with an engine that answers at once; processor time of a chunk.",
            tables.message_path(result),
        ),
        ("More workers, each with its share of the cores.", tables.growth(result)),
        ("Work that waits; processor time of a chunk taken out.", tables.backlog(result)),
    ):
        yield from _grid(said, grid)
    yield from _picture(result, drawn, "backlog")


def _grid(said: str, grid: Grid) -> Iterator[str]:
    heads, rows = grid
    if rows:
        yield said
        yield table(heads, rows)


def _who(result: Result) -> Iterator[str]:
    yield "## Who took part"
    rows = [
        (
            each.label,
            words.dtype(each.dtype),
            ", ".join(f"{name} {version}" for name, version in each.versions.items()),
            ", ".join(f"{name}: {setting}" for name, setting in each.settings.items()),
            f"{words.number(each.load_s)} s",
            f"{each.memory_mib:,.0f} MiB",
        )
        for each in result.contenders
        if each.status == "ran"
    ]
    yield table(("contender", "computes in", "versions", "settings", "ready after", "memory"), rows, "---")
    missing = [each for each in result.contenders if each.status != "ran"]
    if missing:
        yield "Who did not, or not to the end:"
        yield table(("contender", "", "why"), [(each.label, each.status, each.reason) for each in missing], "---")


def _method(result: Result) -> str:
    rounds = sorted({len(entry.rounds_ms) for suite in result.suites for case in suite.cases for entry in case.entries})
    counts = words.listing([str(each) for each in rounds if each])
    models = "; ".join(f"{name}: {what}" for name, what in result.models.items())
    command = {"full": "make bench", "quick": "make bench-quick"}.get(result.mode, "make bench ARGS=…")
    return f"""\
* **The same work.** Everyone loads the same weights, is told to use {result.machine.threads} threads, and is handed the
  same texts. A call starts with texts and ends with vectors or scores: tokenising is in it, and for a server its
  network, here on one machine with its clients.
* **The models.** {models}.
* **In turns.** All are started once and stay. In each case everyone warms up, then all take turns, round by round
  (rounds: {counts}), in an order drawn anew for each round. On a machine that changes its speed, only what ran side by
  side can be compared.
* **Medians.** A time is the median of all calls, a ratio the median of the ratios within each round. Where rates are
  compared, it is the ratio of the rounds' rates.
* **The same rows.** All that comes, in the warm-up and in every turn, is compared with sentence-transformers in
  float32. The divergence, 1 − cosine for vectors of length one, may be at most
  {words.divergence(result.bound)}, of the farthest vector, or of all scores around their mean. What is beyond counts
  for no ratio, whoever it is.
* **Settings** are in the table above. Whoever knows better ones is welcome to change the adapter in `bench/peers/`.

To repeat it, on a quiet machine: `make bench-peers`, then `{command}`."""


def _machine(result: Result) -> str:
    machine = result.machine
    changes = ", with changes" if machine.dirty else ""
    rows = [
        ("processor", f"{machine.processor}, {machine.cores} cores for this process"),
        ("memory", f"{machine.memory_gib:g} GiB"),
        ("load when it began", "unknown" if machine.load is None else f"{machine.load:g}"),
        ("system", machine.system),
        ("Python, torch", f"{machine.python}, {machine.torch}"),
        ("nats-server", machine.nats_server),
        ("Headrace computes in", f"{words.precision(machine.dtype)}, {machine.threads} threads"),
        ("OMP_WAIT_POLICY", machine.omp_wait_policy or "not set"),
        ("commit", f"{(machine.commit or 'none')[:12]}{changes}"),
        ("run", f"{result.mode}, {machine.date}, {result.took_s:,.0f} s"),
    ]
    return table(("", ""), rows, "---")


def _picture(result: Result, drawn: frozenset[str], name: str) -> Iterator[str]:
    if name in drawn:
        yield f"![{_ALTS[name]}]({stem(result)}/{name}.svg)"
