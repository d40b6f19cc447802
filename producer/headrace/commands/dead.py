"""`headrace dead`: the chunks that no worker could run, and another try for them.

Knows flags and how letters are printed. Does not know where they are kept (dead_letters.py).
"""

import re
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer
from headrace_contracts import ErrorCode
from nats.aio.client import Client as NatsClient

from headrace.commands.broker import ask
from headrace.commands.flags import DEFAULT_NATS, Access, Nats
from headrace.commands.tables import print_json, print_table
from headrace.dead_letters import DeadLetters, NotReplayed
from headrace.errors import InputError
from headrace.letter import Letter

dead = typer.Typer(help="Dead letters: chunks that no worker could run, and why.", no_args_is_help=True)

_SOME_STAYED = 1
# The last ones are cut, or left out, where a terminal has no room for them.
_TITLES = ("letter", "when", "job", "deliveries", "tokens", "reason", "model", "class", "chunk", "seq")
_NUMBERS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")

Model: TypeAlias = Annotated[str | None, typer.Option("--model", "-m", help="Only of this model.")]
Job: TypeAlias = Annotated[str | None, typer.Option("--job", help="Only of this bulk job or large call.")]
Code: TypeAlias = Annotated[
    str | None, typer.Option("--code", help=f"Only with this error code, such as {ErrorCode.INTERNAL}.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which letters somebody wants.

    Attributes:
        ranges: of their numbers, ends included; None wants all.
        model: whom they were for.
        job: that they are a part of.
        code: of their reason.
    """

    ranges: Sequence[tuple[int, int]] | None = None
    model: str | None = None
    job: str | None = None
    code: str | None = None

    async def of(self, letters: DeadLetters) -> AsyncGenerator[Letter]:
        """Those that are there, oldest first."""
        first = 1 if self.ranges is None else min(first for first, _ in self.ranges)
        last = None if self.ranges is None else max(last for _, last in self.ranges)
        async with aclosing(letters.read(first=first, last=last)) as found:
            async for letter in found:
                if self._has(letter):
                    yield letter

    def _has(self, letter: Letter) -> bool:
        return (
            (self.ranges is None or any(first <= letter.seq <= last for first, last in self.ranges))
            and self.model in {None, letter.model}
            and self.job in {None, letter.job}
            and self.code in {None, letter.code}
        )


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

    ask(nats, partial(_each, wanted=_Wanted(None, model, job, code), take=take), access)
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
    ask(nats, partial(_each, wanted=_Wanted([(number, number)]), take=found.append), access)
    if not found:
        raise _no_such_letter(number)
    facts = {**_facts(found[0]), **_more_facts(found[0])}
    if as_json:
        print_json(facts)
        return
    print_table(("", ""), ((key, value) for key, value in facts.items() if value is not None))


@dead.command()
def replay(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    numbers: Annotated[
        list[str] | None, typer.Argument(metavar="[LETTER | FIRST-LAST]...", help="Which, by number.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that the other flags leave.")] = False,
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
    if bool(numbers) == all_:
        raise InputError("say which letters: their numbers, as in `headrace dead replay 3 7-9`, or else --all")
    ranges = None if all_ else [_range(each) for each in numbers or ()]
    ended = ask(nats, partial(_replay, wanted=_Wanted(ranges, model, job, code), force=force), access)
    typer.echo(f"{ended.count} replayed, {ended.stayed} left as they were")
    if ended.stayed:
        sys.exit(_SOME_STAYED)


async def _each(nats: NatsClient, wanted: _Wanted, take: Callable[[Letter], None]) -> None:
    async with aclosing(wanted.of(DeadLetters(nats))) as found:
        async for letter in found:
            take(letter)


async def _replay(nats: NatsClient, wanted: _Wanted, *, force: bool) -> _Replayed:
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
    for first, last in wanted.ranges or ():
        if first == last and first not in seen:
            ended.stayed += 1
            typer.secho(f"{_no_such_letter(first)}", err=True, fg="yellow")
    return ended


def _range(spelt: str) -> tuple[int, int]:
    found = _NUMBERS.fullmatch(spelt)
    if found is None:
        raise InputError(f"{spelt!r} is no number of a letter: write 3, or 7-9 for some in a row")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 < first <= last:
        raise InputError(f"{spelt!r} is no range: letters are counted from 1, and the first comes first")
    return first, last


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
