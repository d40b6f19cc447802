"""`headrace dead`: the chunks that no worker could run, and another try for them, or their end.

Knows flags and how letters are printed. Does not know where they are kept (dead_letters.py), nor which of them a set of
flags means (wanted_letters.py).
"""

import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer
from headrace_contracts import ErrorCode
from nats.aio.client import Client as NatsClient

from headrace.commands.broker import ask
from headrace.commands.doomed_letters import find, remove
from headrace.commands.flags import DEFAULT_NATS, Access, Nats
from headrace.commands.tables import print_json, print_table
from headrace.commands.wanted_letters import WantedLetters, typed
from headrace.dead_letters import DeadLetters, NotReplayed
from headrace.errors import InputError
from headrace.letter import Letter

dead = typer.Typer(help="Dead letters: chunks that no worker could run, and why.", no_args_is_help=True)

_SOME_STAYED = 1
# The last ones are cut, or left out, where a terminal has no room for them.
_TITLES = ("letter", "when", "job", "deliveries", "tokens", "reason", "model", "class", "chunk", "seq")

Model: TypeAlias = Annotated[str | None, typer.Option("--model", "-m", help="Only of this model.")]
Job: TypeAlias = Annotated[str | None, typer.Option("--job", help="Only of this bulk job or large call.")]
Code: TypeAlias = Annotated[
    str | None, typer.Option("--code", help=f"Only with this error code, such as {ErrorCode.INTERNAL}.")
]
Numbers: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[LETTER | FIRST-LAST]...", help="Which, by number.")
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All that the other flags leave.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@dataclass(slots=True)
class _Replayed:
    """What became of the letters that somebody wanted."""

    count: int = 0
    stayed: int = 0


@dead.command("ls")
def list_letters(
    model: Model = None,
    job: Job = None,
    code: Code = None,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: AsJson = False,
) -> None:
    """List the dead letters, oldest first."""
    rows: list[tuple[object, ...]] = []

    def take(letter: Letter) -> None:
        # As they come: there may be many.
        if as_json:
            print_json(_facts(letter))
        else:
            rows.append(_row(letter))

    ask(nats, partial(_each, wanted=WantedLetters(None, model, job, code), take=take), access)
    if as_json:
        return
    if not rows:
        of_all = {model, job, code} == {None}
        typer.secho(f"There are no dead letters{'' if of_all else ' that these flags leave'}.", err=True)
        return
    print_table(_TITLES, rows, whole=_TITLES[:5], cut=_TITLES[5:])


@dead.command()
def show(
    number: Annotated[int, typer.Argument(min=1, metavar="LETTER", help="Its number in `headrace dead ls`.")],
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: AsJson = False,
) -> None:
    """Show all that is known of one dead letter."""
    found: list[Letter] = []
    ask(nats, partial(_each, wanted=WantedLetters([(number, number)]), take=found.append), access)
    if not found:
        raise _no_such_letter(number)
    facts = {**_facts(found[0]), **_more_facts(found[0])}
    if as_json:
        print_json(facts)
        return
    print_table(("", ""), ((key, value) for key, value in facts.items() if value is not None))


@dead.command()
def replay(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    numbers: Numbers = None,
    all_: All = False,
    model: Model = None,
    job: Job = None,
    code: Code = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also those whose caller waits no more; nobody hears their replies.")
    ] = False,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Have letters run once more, and forget those that are queued again. Exit code 1 says that some stayed."""
    wanted = WantedLetters(typed("replay", numbers, all_=all_), model, job, code)
    ended = ask(nats, partial(_replay, wanted=wanted, force=force), access)
    typer.echo(f"{ended.count} replayed, {ended.stayed} left as they were")
    if ended.stayed:
        sys.exit(_SOME_STAYED)


@dead.command()
def rm(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    numbers: Numbers = None,
    all_: All = False,
    model: Model = None,
    job: Job = None,
    code: Code = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask first.")] = False,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Forget letters and their chunks for good. Exit code 1 says that one was not there."""
    wanted = WantedLetters(typed("rm", numbers, all_=all_), model, job, code)
    found = ask(nats, partial(find, wanted=wanted), access)
    if all_ and found.count and not yes:
        _be_sure(found.count)
    ask(nats, partial(remove, wanted=wanted, found=found), access)
    for number in found.missing:
        typer.secho(f"{_no_such_letter(number)}", err=True, fg="yellow")
    typer.echo(f"{found.count} removed")
    if found.missing:
        sys.exit(_SOME_STAYED)


def _be_sure(count: int) -> None:
    """Ask whoever sits there.

    Raises:
        InputError: nobody does.
        typer.Abort: they say no.
    """
    what = f"{count:,} dead letter{'' if count == 1 else 's'}"
    if not sys.stdin.isatty():
        raise InputError(f"{what} would be gone for good, and nobody is there to be asked: say so with --yes")
    typer.confirm(f"Remove {what} for good?", abort=True, err=True)


async def _each(nats: NatsClient, wanted: WantedLetters, take: Callable[[Letter], None]) -> None:
    async with aclosing(wanted.of(DeadLetters(nats))) as found:
        async for letter in found:
            take(letter)


async def _replay(nats: NatsClient, wanted: WantedLetters, *, force: bool) -> _Replayed:
    letters, ended, seen = DeadLetters(nats), _Replayed(), set[int]()
    async with aclosing(wanted.of(letters)) as found:
        async for letter in found:
            seen.add(letter.seq)
            try:
                await letters.replay(letter, force=force)
                ended.count += 1
            except NotReplayed as error:
                ended.stayed += 1
                typer.secho(f"letter {letter.seq} stays: {error}", err=True, fg="yellow")
    for number in wanted.missing(seen):
        ended.stayed += 1
        typer.secho(f"{_no_such_letter(number)}", err=True, fg="yellow")
    return ended


def _no_such_letter(number: int) -> InputError:
    return InputError(f"there is no letter {number} that was asked for: `headrace dead ls` lists those that are there")


def _row(letter: Letter) -> tuple[object, ...]:
    facts = _facts(letter)
    return tuple(facts[title] for title in _TITLES)


def _facts(letter: Letter) -> dict[str, Any]:
    chunk = letter.chunk
    return {
        "letter": letter.seq,
        "when": letter.when.isoformat(" ", "seconds"),
        "model": letter.model,
        "class": letter.priority,
        "chunk": None if chunk is None else chunk.id,
        "job": letter.job,
        "seq": None if chunk is None else chunk.seq,
        "deliveries": letter.deliveries,
        "tokens": None if chunk is None else chunk.num_tokens,
        "code": letter.code,
        "reason": letter.reason,
    }


def _more_facts(letter: Letter) -> dict[str, Any]:
    chunk = letter.chunk
    return {
        "body_bytes": len(letter.body),
        "unreadable": letter.problem,
        "came_from": letter.place,
        "request": letter.request_id,
        "headers": dict(letter.headers),
        **(
            {}
            if chunk is None
            else {
                "task": chunk.task,
                "fingerprint": chunk.fingerprint,
                "items": chunk.num_sequences,
                "lengths": chunk.lengths.tolist(),
                "options": {name: getattr(chunk.options, name) for name in chunk.options.__slots__},
            }
        ),
    }
