"""`headrace workers`: which workers are there, and drain and resume of some.

Knows flags, exit codes and how a status is printed. Does not know how workers are reached (workforce.py).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, TypeAlias

import typer
from headrace_contracts.control import Status, encode_status
from headrace_contracts.errors import InvalidName
from nats.aio.client import Client as NatsClient

from headrace.commands.broker import ask
from headrace.commands.flags import DEFAULT_NATS, Access, Nats
from headrace.commands.numbers import duration, short
from headrace.commands.tables import print_table, printable
from headrace.errors import HeadraceError, InputError
from headrace.workforce import NotTold, WorkerNotThere, Workforce

workers = typer.Typer(help="Workers of the fleet: which there are; drain and resume them.", no_args_is_help=True)

_NOT_ALL = 1
_TITLES = ("worker", "model", "state", "tokens/s", "in hand", "tokens", "online", "batch", "up", "device", "waits for")

Names: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Of workers; `headrace workers ls` lists them.")
]
OfModel: TypeAlias = Annotated[str | None, typer.Option("--model", "-m", help="All workers of this model.")]
Wait: TypeAlias = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long until all of them have drained.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line: each worker's status.")]


@workers.command("ls")
def list_workers(
    model: OfModel = None, nats: Nats = DEFAULT_NATS, access: Access = None, as_json: AsJson = False
) -> None:
    """List the workers that are there: those that serve, and those that drain or have."""
    found = [each for each in ask(nats, _all, access) if model in {None, each.model}]
    if as_json:
        for status in found:
            typer.echo(encode_status(status))
        return
    if not found:
        of = "" if model is None else f" of {model}"
        typer.secho(f"There is no worker{of}: start one with `headrace worker MODEL`.", err=True)
        return
    print_table(_TITLES, map(_row, found), whole=_TITLES[:3], cut=_TITLES[9:])


@workers.command()
def drain(
    names: Names = None,
    model: OfModel = None,
    wait: Wait = 0,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: AsJson = False,
) -> None:
    """Have workers take no more work, finish what they have in hand, and stay.

    Exit code 1 says that one did not do it or, with --wait, has not finished by then.
    """

    async def one(workforce: Workforce, name: str) -> Status | None:
        return await workforce.drained(name, wait)

    answers = ask(nats, partial(_each, names=names or (), model=model, act=one), access)
    unfinished = [each for each in answers if isinstance(each, Status) and each.state != "drained"]
    _say(answers, as_json=as_json, is_good=not (wait and unfinished))


@workers.command()
def resume(
    names: Names = None,
    model: OfModel = None,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: AsJson = False,
) -> None:
    """Have workers take work again that were drained, or are draining.

    Exit code 1 says that one did not do it.
    """

    async def one(workforce: Workforce, name: str) -> Status | None:
        return await workforce.tell(name, "resume")

    _say(ask(nats, partial(_each, names=names or (), model=model, act=one), access), as_json=as_json, is_good=True)


_Answer: TypeAlias = Status | NotTold | str


async def _all(nats: NatsClient) -> list[Status]:
    return await Workforce(nats).all()


async def _each(
    nats: NatsClient,
    *,
    names: Sequence[str],
    model: str | None,
    act: Callable[[Workforce, str], Awaitable[Status | None]],
) -> list[_Answer]:
    """Have all of them do it, side by side; what each answers, or why it does not, or what else there is to say.

    Raises:
        InputError: there is no such worker; nothing was done.
    """
    workforce = Workforce(nats)
    chosen = await _chosen(workforce, names, model)

    async def one(name: str) -> _Answer:
        try:
            status = await act(workforce, name)
        except NotTold as error:
            return error
        except WorkerNotThere:
            return f"{name}: ended"
        return f"{name}: ended" if status is None else status

    return await asyncio.gather(*map(one, chosen))


async def _chosen(workforce: Workforce, names: Sequence[str], model: str | None) -> list[str]:
    if bool(names) == bool(model):
        raise InputError("say which workers: their names, or --model for all of a model")
    there = await workforce.all()
    if model is not None:
        if found := [each.worker for each in there if each.model == model]:
            return found
        raise InputError(f"there is no worker of {model}: {_listed(there)}")
    known = {each.worker for each in there}
    for name in names:
        # It may just have been slow.
        if name not in known and not await _is_there(workforce, name):
            raise InputError(f"there is no worker {name}, and nothing was done: {_listed(there)}")
    return list(dict.fromkeys(names))


async def _is_there(workforce: Workforce, name: str) -> bool:
    try:
        await workforce.tell(name, "status")
    except (WorkerNotThere, InvalidName):
        return False
    return True


def _listed(there: Sequence[Status]) -> str:
    names = [f"{each.worker} ({each.model})" for each in there]
    if not names:
        return "there is none at all"
    return "there are " + ", ".join(names) if len(names) > 1 else f"there is {names[0]}"


def _say(answers: Sequence[_Answer], *, as_json: bool, is_good: bool) -> None:
    for answer in answers:
        if isinstance(answer, HeadraceError):
            typer.secho(printable(f"headrace: {answer}"), err=True, fg="red")
        elif isinstance(answer, str):
            typer.echo(printable(answer), err=as_json)
        elif as_json:
            typer.echo(encode_status(answer))
        else:
            typer.echo(printable(f"{answer.worker}: {answer.state}" + (answer.waits_for and f", {answer.waits_for}")))
    if not is_good or any(isinstance(answer, HeadraceError) for answer in answers):
        sys.exit(_NOT_ALL)


def _row(status: Status) -> tuple[object, ...]:
    return (
        status.worker,
        status.model,
        status.state,
        short(status.rate) if status.rate else None,
        f"{status.held_chunks:,}",
        short(status.held_tokens),
        use(status.online.held_bytes, status.online.budget_bytes),
        use(status.batch.held_bytes, status.batch.budget_bytes),
        duration(status.uptime_s),
        f"{status.device} {status.dtype}",
        status.waits_for or None,
    )


def use(held: int, budget: int) -> str:
    """How much of a budget is in hand."""
    return f"{held / budget:.0%}" if budget else "–"
