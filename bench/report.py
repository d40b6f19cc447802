"""A result as tables for people.

It knows words, units and rounding. It measures nothing.
"""

from collections.abc import Iterator

from result import Result
from rich.table import Table
from rich.text import Text


def report(result: Result) -> Iterator[Table | Text]:
    """What to print, from top to bottom."""
    yield _machine(result)
    yield Text("\nThe engine alone", style="bold")
    yield _engine(result)
    yield _engine_notes(result)
    yield Text("\nThe whole path, one short text a call", style="bold")
    yield _calls(result)
    yield _calls_notes(result)
    yield Text("\nThe whole path, many texts in one batch call", style="bold")
    yield _bulk(result)


def _machine(result: Result) -> Text:
    machine = result.machine
    changes = " with changes" if machine.dirty else ""
    load = "" if machine.load is None else f", load {machine.load}"
    waiting = machine.omp_wait_policy or "not set"
    return Text(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}{load}\n"
        f"Python {machine.python}, torch {machine.torch}, {machine.threads} threads, {machine.dtype}, "
        f"nats-server {machine.nats_server}, OMP_WAIT_POLICY {waiting}\n"
        f"{result.model}, commit {(machine.commit or 'none')[:12]}{changes}, {machine.date}"
    )


def _engine(result: Result) -> Table:
    table = _table("shape", "sequences", "tokens", "runs", "median ms", "min ms", "p90 ms", "tokens/s", "of ceiling")
    for row in result.engine:
        step = row.step
        table.add_row(
            row.shape,
            *(f"{count:,}" for count in (row.sequences, row.tokens, step.num)),
            *map(_ms, (step.p50_ms, step.min_ms, step.p90_ms)),
            f"{row.tokens_per_s:,.0f}",
            f"{result.ceiling_share(row):.0%}",
        )
    return table


def _engine_notes(result: Result) -> Text:
    rows, inputs, outputs = result.ceilings[0].product
    ceilings = "; ".join(
        f"{ceiling.dtype} {ceiling.gflops:,.0f} GFLOP/s, {ceiling.tokens_per_s:,.0f} tokens/s"
        for ceiling in result.ceilings
    )
    return Text(
        "tokens/s: at the median. of ceiling: the fastest step against the fastest torch.mm of "
        f"{rows}×{inputs} by {inputs}×{outputs}, as if a token were nothing but its linear layers: {ceilings}.\n"
        f"The model was loaded for sequences of {result.max_length} tokens, whatever limit it states, so that every "
        "shape fits.",
        style="dim",
    )


def _calls(result: Result) -> Table:
    table = _table(
        "callers", "calls", "p50 ms", "p90 ms", "p99 ms", "calls/s", "engine", "tokenise", "queue", "run", "rest"
    )
    for row in result.path.calls:
        table.add_row(
            str(row.concurrency),
            f"{row.call.num:,}",
            *map(_ms, (row.call.p50_ms, row.call.p90_ms, row.call.p99_ms)),
            f"{row.requests_per_s:,.0f}",
            f"{row.engine_share:.0%}",
            *map(_ms, (row.tokenise_ms, row.queue_ms, row.run_ms, row.rest_ms)),
        )
    return table


def _calls_notes(result: Result) -> Text:
    return Text(
        "engine: the step's share of a call, the median. tokenise to rest: medians in ms; queue is from the broker to "
        "the start of the step, run is the step with whatever else was in it, rest is publishing, event loops, codec "
        "and the way back.\n"
        "Client, nats-server and worker are processes that share these cores. "
        f"The client's event loop is {result.path.event_loop}'s.",
        style="dim",
    )


def _bulk(result: Result) -> Text:
    bulk = result.path.bulk
    return Text(
        f"{bulk.texts:,} texts, {bulk.tokens:,} tokens in {bulk.seconds:.2f} s: {bulk.texts_per_s:,.0f} texts/s, "
        f"{bulk.tokens_per_s:,.0f} tokens/s, {bulk.engine_share:.0%} of what the engine alone does on the mixed shape\n"
    )


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for number in numbers:
        table.add_column(number, justify="right")
    return table


def _ms(value: float) -> str:
    """Three digits that count, no more."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
