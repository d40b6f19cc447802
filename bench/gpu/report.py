"""A result as tables for people.

It knows words, units and rounding. It measures nothing.
"""

from collections.abc import Iterator
from itertools import groupby
from statistics import median

from rich.table import Table
from rich.text import Text

from gpu.finding import Bulk, Capture, Check, HostCost, MemoryUse, Timing, Where
from gpu.result import Result

_MIB = 2**20
_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "–", "noted": "noted"}


def report(result: Result) -> Iterator[Table | Text]:
    """What to print, from top to bottom."""
    yield _head(result)
    parts = (
        ("Times of steps, batch by batch", _steps(result)),
        ("Bulk", _bulk(result)),
        ("Graphs: what they cost", _captures(result)),
        ("Host: what a step costs before the model", _host(result)),
        ("Memory", _memory(result)),
        ("Checks", _checks(result)),
    )
    for title, table in parts:
        if table.row_count:
            yield Text(f"\n{title}", style="bold")
            yield table
    yield from _details(result)
    yield _verdict(result)


def _head(result: Result) -> Text:
    facts = result.facts
    packages = ", ".join(f"{name} {found}" for name, found in facts.packages.items())
    memory = f", {facts.memory_gib:g} GiB, driver {facts.driver or 'unknown'}, CUDA {facts.cuda}"
    lines = [
        f"{facts.device}{'' if result.is_small else memory}",
        f"Python {facts.python}, {packages}",
    ]
    if result.rates is not None:
        lines.append(
            f"measured: {result.rates.flop_per_s / 1e12:,.1f} TFLOP/s in a bfloat16 product, "
            f"{result.rates.bytes_per_s / 1e12:,.2f} TB/s in a copy; a floor is the work at these"
        )
    if result.is_small:
        lines.append("No CUDA device: the models are scaled down for a CPU, and the times say nothing of real ones.")
    return Text("\n".join(lines))


def _steps(result: Result) -> Table:
    """A row for each batch and backend: eager and replayed side by side."""
    table = _table("model", "batch", "backend", "eager ms", "launch", "graph ms", "launch", "floor ms", "×floor")
    rows = sorted(result.all(Timing), key=_batch)
    for (model, batch, backend), group in groupby(rows, _row):
        found = {timing.is_graph: timing for timing in group}
        cells = [cell for is_graph in (False, True) for cell in _times(found.get(is_graph))]
        floor_ms = next(iter(found.values())).floor_ms
        best_ms = min(timing.step.p50_ms for timing in found.values())
        share = ["–", "–"] if floor_ms is None else [_number(floor_ms), _number(best_ms / floor_ms)]
        table.add_row(model, batch, backend, *cells, *share)
    return table


def _batch(timing: Timing) -> tuple[str, int, str]:
    return timing.where.model, timing.tokens, timing.where.backend


def _row(timing: Timing) -> tuple[str, str, str]:
    return timing.where.model, timing.batch, timing.where.backend


def _times(timing: Timing | None) -> tuple[str, str]:
    return ("–", "–") if timing is None else (_number(timing.step.p50_ms), _number(timing.launch_ms))


def _bulk(result: Result) -> Table:
    table = _table("model", "batch", "backend", "processes", "graphs", "texts/s", "tokens/s", "of floor")
    for bulk in result.all(Bulk):
        table.add_row(
            bulk.where.model,
            bulk.batch,
            bulk.where.backend,
            str(bulk.processes),
            "yes" if bulk.is_graph else "no",
            f"{bulk.texts_per_s:,.0f}",
            f"{bulk.tokens_per_s:,.0f}",
            "–" if bulk.share is None else f"{bulk.share:.0%}",
        )
    return table


def _captures(result: Result) -> Table:
    table = _table("model", "backend", "graphs", "capture ms", "longest", "pool MiB each", "driver MiB each")
    for where, group in _by_where(result.all(Capture)):
        graphs = list(group)
        table.add_row(
            where.model,
            where.backend,
            str(len(graphs)),
            _number(median(graph.capture_ms for graph in graphs)),
            _number(max(graph.capture_ms for graph in graphs)),
            _number(sum(graph.pool_bytes for graph in graphs) / len(graphs) / _MIB),
            _number(sum(graph.driver_bytes for graph in graphs) / len(graphs) / _MIB),
        )
    return table


def _host(result: Result) -> Table:
    table = _table("model", "batch", "backend", "pack ms", "pad ms", "upload ms")
    for cost in result.all(HostCost):
        parts = (cost.pack_ms, cost.pad_ms, cost.upload_ms)
        cells = ["–" if part is None else _number(part) for part in parts]
        table.add_row(cost.where.model, cost.batch, cost.where.backend, *cells)
    return table


def _memory(result: Result) -> Table:
    figures_of = ("reserved MiB", "at half", "used MiB", "at half")
    table = _table("model", "backend", "shapes", "captures", "evictions", *figures_of)
    for use in result.all(MemoryUse):
        if use.samples:
            half, last = use.samples[len(use.samples) // 2], use.samples[-1]
            figures = [f"{figure / _MIB:,.0f}" for figure in (last[1], half[1], last[2], half[2])]
            counts = [f"{count:,}" for count in (use.shapes, use.captures, use.evictions)]
            table.add_row(use.where.model, use.where.backend, *counts, *figures)
    return table


def _checks(result: Result) -> Table:
    """A row for each check and model, a column for each backend, and how far off the farthest was."""
    checks = [check for check in result.all(Check) if check.outcome != "noted"]
    backends = list(dict.fromkeys(check.where.backend for check in checks))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for check in checks:
        cells = rows.setdefault((f"{check.where.stage}: {check.what}", check.where.model), {})
        far = "" if check.far is None else f" {check.far:.0e}"
        cells[check.where.backend] = f"{_MARKS[check.outcome]}{far}"
    table = _table("check", "model", *backends)
    for (check_name, model), cells in rows.items():
        table.add_row(check_name, model, *(cells.get(backend, "") for backend in backends))
    return table


def _details(result: Result) -> Iterator[Text]:
    """What a mark does not say, the failures last, where they are seen."""
    for outcome, title in (("skipped", "Not run, and why"), ("noted", "Noted"), ("failed", "Failed")):
        lines = list(dict.fromkeys(_line(check) for check in result.all(Check) if check.outcome == outcome))
        if lines:
            yield Text(f"\n{title}", style="bold")
            yield Text("\n".join(lines))


def _line(check: Check) -> str:
    where = check.where
    place = ", ".join(filter(None, (where.stage, where.backend, where.model)))
    return f"{place}: {check.what}: {check.detail}"


def _verdict(result: Result) -> Text:
    counts = {outcome: sum(check.outcome == outcome for check in result.all(Check)) for outcome in _MARKS}
    return Text(
        f"\n{counts['passed']} checks passed, {counts['failed']} failed, {counts['skipped']} did not run; "
        f"{result.end} after {result.took_s:.0f} of {result.budget_s:g} s",
        style="bold",
    )


def _by_where(captures: Iterator[Capture]) -> Iterator[tuple[Where, Iterator[Capture]]]:
    return groupby(captures, lambda capture: capture.where)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="left" if other in {"model", "backend", "batch"} else "right")
    return table


def _number(value: float) -> str:
    """Three digits that count, no more."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3}f}"
