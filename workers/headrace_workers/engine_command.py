"""`headrace engine`: what there is to ask of the engine alone, without a broker.

Knows flags and how facts are printed. Exit codes: 0 the model can be run, 1 it cannot, 2 for a wrong flag. Light to
import, since every `headrace` command imports it: torch comes in when a subcommand is run.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from headrace_engine.explain import Fact

engine = typer.Typer(help="Ask the engine about a model, without a broker.", no_args_is_help=True)


@engine.callback()
def _group() -> None:
    """Ask the engine about a model, without a broker."""


@engine.command()
def explain(
    model: Annotated[str, typer.Argument(help="A directory, an installed package that carries a model, or a hub id.")],
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, or float16 (CPUs).")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="Threads of a CPU; 0 leaves it to torch.")] = 0,
    attention: Annotated[str, typer.Option(help="auto, fa2, fa3, fa4, varlen, ragged or sdpa.")] = "auto",
    graphs: Annotated[bool, typer.Option(help="Capture CUDA graphs, as the worker will.")] = True,
    capability: Annotated[
        str | None,
        typer.Option(
            help="Explain for a CUDA device that is not here, by compute capability, with every backend: 9.0. "
            "Goes without --device."
        ),
    ] = None,
) -> None:
    """Say how a model would be run here, and why: its task, its dtype, its attention, its graphs, its step budget.

    Nothing is loaded.
    """
    try:
        # Deferred: torch takes seconds to import, and a client-only installation has none.
        from headrace_workers.engine_facts import EngineConfig, EngineError, GraphConfig, facts  # noqa: PLC0415
    except ImportError as error:
        _fail(f"this needs more than the client ({error}): pip install 'headrace[worker]'")
    if capability is not None and device != "auto":
        raise typer.BadParameter(f"--capability is for a device that is not here: leave out --device {device}, or it")
    try:
        config = EngineConfig(
            device=device,
            dtype=dtype,
            threads=threads,
            attention=attention,
            graphs=GraphConfig() if graphs else None,
        )
        assumed = _read(capability)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        found = facts(model, config, assumed)
    except EngineError as error:
        _fail(str(error))
    _print(found)
    if any(fact.topic == "attention" and fact.value == "none" for fact in found):
        raise typer.Exit(1)


def _read(capability: str | None) -> tuple[int, int] | None:
    if capability is None:
        return None
    match = re.fullmatch(r"(\d{1,2})\.(\d)", capability, re.ASCII)
    if match is None:
        raise ValueError(f"capability={capability!r} is not of the form 9.0: see developer.nvidia.com/cuda-gpus")
    return int(match[1]), int(match[2])


def _print(found: "Sequence[Fact]") -> None:
    width = max(len(fact.topic) for fact in found)
    for fact in found:
        reason = f" ({fact.reason})" if fact.value and fact.reason else fact.reason
        typer.echo(f"{fact.topic:{width}}  {fact.value}{reason}")


def _fail(text: str) -> NoReturn:
    typer.secho(f"headrace engine: {text}", err=True, fg="red")
    raise typer.Exit(1)
