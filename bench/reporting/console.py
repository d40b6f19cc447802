"""A result for a terminal of 100 columns.

It knows rich. What the tables and sentences say is known elsewhere.
"""

from collections.abc import Iterator, Sequence

from result import Result, Suite
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from reporting import tables, verdicts, words
from reporting.tables import Cell, Row, Tone

WIDTH = 100

_STYLES: dict[Tone, str] = {"ours": "bold", "peer": "", "limit": "dim", "wrong": "red"}


def report(result: Result) -> Iterator[RenderableType]:
    """What to print, from top to bottom: what matters most comes last, where a terminal stands still."""
    yield _machine(result)
    for suite in result.suites:
        yield _heading(suite.title)
        yield Text(suite.what, style="dim")
        yield _suite(result, suite)
        yield from (Text(fault, style="red") for fault in tables.faults(result, suite))
    yield from _details(result)
    yield from _absent(result)
    yield _heading("What it comes to")
    yield _verdicts(result)
    alarms = list(verdicts.alarms(result))
    if alarms:
        yield Panel(Text("\n".join(alarms)), title="HEADRACE IS NOT RIGHT", style="bold red", width=WIDTH)


def _machine(result: Result) -> Text:
    machine = result.machine
    changes = " with changes" if machine.dirty else ""
    load = "" if machine.load is None else f", load {machine.load}"
    ceilings = "; ".join(f"{words.dtype(each.dtype)} {each.gflops:,.0f} GFLOP/s" for each in result.ceilings)
    return Text(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}{load}\n"
        f"Python {machine.python}, torch {machine.torch}, {machine.threads} threads, {machine.dtype}, "
        f"nats-server {machine.nats_server}, OMP_WAIT_POLICY {machine.omp_wait_policy or 'not set'}\n"
        f"matrix products reach {ceilings or 'what was not measured'}\n"
        f"commit {(machine.commit or 'none')[:12]}{changes}, {machine.date}, {result.mode} run, {result.took_s:,.0f} s"
    )


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _suite(result: Result, suite: Suite) -> Table:
    groups = list(tables.groups(result, suite))
    rows = [row for _, group in groups for row in group]
    limits = list(tables.limits(result, suite))
    table = _table(f"{words.unit(suite)}, and × the best peer", *(case.name for case in suite.cases))
    widths = [tables.widths([*rows, *limits], column) for column in range(len(suite.cases))]
    for heading, group in groups:
        table.add_row(Text(heading, style="italic"))
        _add(table, group, widths)
    table.add_row(Text("limit", style="italic"))
    _add(table, limits, widths)
    return table


def _add(table: Table, rows: Sequence[Row], widths: Sequence[tuple[int, int]]) -> None:
    for row in rows:
        cells = [_cell(cell, width, _STYLES[row.tone]) for cell, width in zip(row.cells, widths, strict=True)]
        table.add_row(Text(f"  {row.name}", style=_STYLES[row.tone]), *cells)


def _cell(cell: Cell, widths: tuple[int, int], style: str) -> Text:
    value, ratio = widths
    return Text(
        f"{cell.value:>{value}} {cell.ratio:>{ratio}}", style="red" if cell.value in {"wrong", "out"} else style
    )


def _details(result: Result) -> Iterator[RenderableType]:
    for title, (heads, rows) in (
        ("The engine alone: ids in, rows out", tables.shapes(result)),
        ("Where a call's time goes, over the network", tables.breakdown(result)),
        ("The message path alone: an engine that answers at once", tables.message_path(result)),
        ("More workers on the same cores", tables.growth(result)),
        ("Waiting work", tables.backlog(result)),
    ):
        if rows:
            yield _heading(title)
            table = _table(*heads)
            for row in rows:
                table.add_row(*row)
            yield table
    if result.calibrated:
        yield _heading("Calibration")
        yield Text(verdicts.calibration(result.calibrated))


def _absent(result: Result) -> Iterator[RenderableType]:
    for name, reason in result.unmeasured.items():
        yield Text(f"\nNot measured: {name}: {reason}", style="red")
    missing = [contender for contender in result.contenders if contender.status != "ran"]
    if missing:
        yield _heading("Who did not take part")
        table = Table.grid(padding=(0, 2))
        for contender in missing:
            table.add_row(Text(contender.label), Text(f"{contender.status}: {contender.reason}", style="dim"))
        yield table


def _verdicts(result: Result) -> Group:
    lines: list[RenderableType] = []
    for suite in result.suites:
        lines.append(Text(suite.title, style="bold"))
        lines += [Padding(Text(f"{way}: {said}."), (0, 0, 0, 2)) for way, said in verdicts.sentences(result, suite)]
    lines.append(Text("\nWhere it is behind", style="bold"))
    losses: list[RenderableType] = [
        Padding(Text(f"{where}: {said}."), (0, 0, 0, 2)) for where, said in verdicts.where_behind(result)
    ]
    return Group(*lines, *(losses or [Text(f"  {verdicts.nowhere(result)}")]))


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, width=None)
    table.add_column(first, overflow="fold")
    for other in others:
        table.add_column(other, justify="right")
    return table
