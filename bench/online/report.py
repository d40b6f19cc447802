"""What was found, for a terminal.

It knows rich. What the words mean is known where they are written.
"""

from collections.abc import Iterator, Sequence

from machine import Machine
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from online.cores import Cores
from online.finding import Figure, Finding, Verdict


def report(machine: Machine, cores: Cores, findings: Sequence[Finding], *, is_quick: bool) -> Iterator[RenderableType]:
    """What to print, from top to bottom."""
    yield _header(machine, cores)
    for finding in findings:
        yield Text(f"\n{finding.part}: {finding.what}", style="bold")
        if finding.not_run:
            yield Text(f"not run: {finding.not_run}", style="yellow")
        elif finding.broke:
            yield Text(f"broken off: {finding.broke}", style="bold red")
        else:
            yield Group(_figures(finding.figures), _verdicts(finding.verdicts, is_quick=is_quick))
        yield from (Text(note, style="red") for note in finding.notes)
    if is_quick:
        yield Text("\nA quick run shows that all works. It is too short for verdicts.", style="dim")


def _header(machine: Machine, cores: Cores) -> Text:
    load = "" if machine.load is None else f", load {machine.load}"
    split = (
        f"{len(cores.device)} for the worker, {len(cores.others)} for all else" if cores.are_split else "shared by all"
    )
    return Text(
        f"{machine.processor}, {machine.cores} cores ({split}), {machine.memory_gib:g} GiB, {machine.system}{load}\n"
        f"Python {machine.python}, torch {machine.torch}, {machine.dtype}, nats-server {machine.nats_server}\n"
        f"commit {(machine.commit or 'none')[:12]}{' with changes' if machine.dirty else ''}, {machine.date}"
    )


def _figures(figures: Sequence[Figure]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for figure in figures:
        table.add_row(f"  {figure.what}", number(figure.value), figure.unit)
    return table


def _verdicts(verdicts: Sequence[Verdict], *, is_quick: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for verdict in verdicts:
        limit = f"{verdict.sense} {number(verdict.limit)}"
        said = Text("–" if is_quick else "holds" if verdict.holds else "FAILS")
        said.stylize("dim" if is_quick else "green" if verdict.holds else "bold red")
        table.add_row(f"  {verdict.what}", number(verdict.found), verdict.unit, limit, said)
    return table


def number(value: float) -> str:
    """Four digits that count, at least all before the point; counts as they are."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - what is no number is not itself
        return "never" if value > 0 else "none"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
