"""`headrace job`: the bulk jobs that the fleet knows, and what can be done to them from anywhere.

Knows flags and how facts are printed. Does not know how a job is run: `headrace reindex` does.
"""

import glob
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from headrace_contracts.credentials import Credentials
from nats.aio.client import Client as NatsClient

from headrace.bulk.jobs.facts import job_facts, owner_name, shard_facts, shard_state, state_of
from headrace.bulk.jobs.record import JobRecord, ShardRecord, State
from headrace.bulk.jobs.store import Jobs
from headrace.commands.audit import Audit, told
from headrace.commands.broker import ask
from headrace.commands.flags import DEFAULT_NATS, Access, Nats
from headrace.commands.job_command import job_command
from headrace.commands.long_run import INTERRUPTED
from headrace.commands.tables import print_json, print_table, printable
from headrace.errors import InputError, JobConflict

job = typer.Typer(
    help="Bulk jobs: which there are, how far they are; pause, resume, cancel, verify, remove.", no_args_is_help=True
)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Of the job; `headrace job ls` lists them.")]
Reason: TypeAlias = Annotated[str | None, typer.Option(help="Why, for whoever wonders.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@job.command("ls")
def list_jobs(nats: Nats = DEFAULT_NATS, access: Access = None, as_json: AsJson = False) -> None:
    """List the bulk jobs."""
    found = ask(nats, _all, access)
    if as_json:
        for facts in found:
            print_json(facts)
        return
    if not found:
        typer.secho("There are no jobs: `headrace reindex` begins one.", err=True)
        return
    found.sort(key=lambda facts: facts["created_ms"])
    titles = ("name", "state", "progress", "rows", "failed", "processes", "source", "sink", "model")
    print_table(titles, map(_row, found), whole=titles[:6], cut=titles[6:])


@job.command()
def show(name: Name, nats: Nats = DEFAULT_NATS, access: Access = None, as_json: AsJson = False) -> None:
    """Show all that is known of a job: what it does, how far each of its shards is, and who works on it."""
    record, shards = ask(nats, partial(_one, name=name), access)
    now_ms = _now_ms()
    facts = job_facts(record, shards, now_ms)
    of_shards = [shard_facts(shard, now_ms) for shard in shards.values()]
    if as_json:
        print_json({**facts, "options": dict(record.options), "command": job_command(record), "shards": of_shards})
        return
    card = record.card
    said = {
        "name": record.name,
        "state": state_of(facts),
        "reason": record.reason,
        "progress": _percent(facts["progress"]),
        "rows": _rows(facts),
        **{key: f"{facts[key]:,}" for key in ("written", "unchanged", "failed", "tokens", "retried")},
        "shards": f"{facts['shards_done']:,} of {facts['num_shards']:,} done",
        "processes": facts["processes"],
        "model": record.card.model,
        "vectors": f"{card.dim} × {card.dtype}, {card.pooling}, {'' if card.normalize else 'not '}normalised, "
        f"prompt {card.prompt!r}",
        "source": record.source,
        "sink": record.sink,
        "created": _date(record.created_ms),
        "changed": _date(record.changed_ms),
    }
    print_table(("", ""), ((key, value) for key, value in said.items() if value is not None))
    if of_shards:
        typer.echo("")
        print_table(tuple(of_shards[0]), (tuple(shard.values()) for shard in of_shards))
    num_left = record.num_shards - len(of_shards)
    if num_left:
        typer.echo(f"\n{num_left:,} of {record.num_shards:,} shards have not been begun")
    if record.state != "done":
        typer.echo(f"\nThis goes on with it:\n  {printable(job_command(record))}")


@job.command()
def pause(name: Name, reason: Reason = None, nats: Nats = DEFAULT_NATS, access: Access = None) -> None:
    """Have all processes of a job wait, after what they have sent already."""
    _set_state(nats, access, name, "paused", reason)
    typer.echo(f"job {name} is paused; `headrace job resume {name}` lets it go on")


@job.command()
def resume(name: Name, nats: Nats = DEFAULT_NATS, access: Access = None) -> None:
    """Let the processes of a paused job go on."""
    _set_state(nats, access, name, "running", None)
    typer.echo(f"job {name} is running, if its processes are: where none is, its `headrace reindex` command starts one")


@job.command()
def cancel(name: Name, reason: Reason = None, nats: Nats = DEFAULT_NATS, access: Access = None) -> None:
    """Have all processes of a job end. What is in the sink stays."""
    _set_state(nats, access, name, "cancelled", reason or "with `headrace job cancel`")
    typer.echo(f"job {name} is cancelled; its `headrace reindex` command would go on with it")


@job.command()
def verify(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    name: Name,
    source: Annotated[str | None, typer.Option(help="The corpus, if spelt otherwise than the job has it.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="SINK", help="The sink, likewise.")] = None,
    repair: Annotated[bool, typer.Option(help="Do again what is missing or wrong, or only tell.")] = True,
    job_dir: Annotated[
        Path | None, typer.Option(help="Where the job's files are, if not where its record says.")
    ] = None,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: AsJson = False,
) -> None:
    """Compare sink and corpus row by row, and do again what is missing. Exit code 1 says that all is not right."""
    record = ask(nats, lambda link: Jobs(link).get(name), access)
    audit = Audit(record=record, nats=nats, access=access, source=source, to=to, folder=job_dir)
    verdict = audit.look(reopen=repair)
    if verdict is not None and repair and not verdict.is_good:
        typer.echo(f"{told(verdict)}: this is done again", err=True)
        verdict = audit.look(reopen=False) if audit.repair("bar" if sys.stderr.isatty() else "none") else None
    if verdict is None:
        typer.echo("stopped before all was compared; the same command begins anew", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json(asdict(verdict) | {"is_good": verdict.is_good})
    else:
        counts = ((key, f"{value:,}") for key, value in asdict(verdict).items() if type(value) is int)
        print_table(("", "rows"), counts)
        typer.echo(told(verdict), err=True)
    sys.exit(0 if verdict.is_good else 1)


@job.command()
def rm(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Even while processes work on it; they end.")] = False,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Forget a job, and what waits in the broker for it. What is in the sink stays."""
    ask(nats, partial(_forget, name=name, force=force), access)
    typer.echo(f"job {name} is forgotten; its sink is as it was")


async def _all(nats: NatsClient) -> list[dict[str, Any]]:
    jobs = Jobs(nats)
    found = []
    for record in await jobs.list():
        try:
            found.append(job_facts(record, await jobs.shards(record.name), _now_ms()))
        except InputError:
            continue  # removed since
        except JobConflict as error:
            typer.secho(f"job {record.name} is left out: {error}", err=True, fg="yellow")
    return found


async def _one(nats: NatsClient, name: str) -> tuple[JobRecord, dict[int, ShardRecord]]:
    jobs = Jobs(nats)
    return await jobs.get(name), await jobs.shards(name)


async def _forget(nats: NatsClient, name: str, *, force: bool) -> None:
    jobs = Jobs(nats)
    if not force:
        await _check_nobody_works_on(jobs, name)
    await jobs.forget(name)


async def _check_nobody_works_on(jobs: Jobs, name: str) -> None:
    try:
        shards, now_ms = await jobs.shards(name), _now_ms()
    except JobConflict:
        return  # what cannot be read cannot be worked on either
    owners = {
        owner_name(shard.owner)
        for shard in shards.values()
        if shard.owner is not None and shard_state(shard, now_ms) == "at work"
    }
    if owners:
        raise JobConflict(
            f"job {name!r} is worked on by {', '.join(sorted(owners))}: `headrace job cancel {name}` ends them, or "
            "give --force"
        )


def _set_state(url: str, access: Credentials | None, name: str, state: State, reason: str | None) -> None:
    ask(url, lambda nats: Jobs(nats).set_state(name, state, reason), access)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    shown = (facts["name"], state_of(facts), _percent(facts["progress"]), _rows(facts), f"{facts['failed']:,}")
    return *shown, facts["processes"], end_of(facts["source"]), end_of(facts["sink"]), facts["model"]


def _rows(facts: dict[str, Any]) -> str:
    return f"{facts['rows']:,}" + ("" if facts["num_rows"] is None else f" of {facts['num_rows']:,}")


def end_of(place: str) -> str:
    """The kind and the last part of a path or URL, which tell more than its beginning; a query stays as it is."""
    if " " in place:
        return place
    kind, colon, path = place.partition(":") if ":" in place.partition("/")[0] else ("", "", place)
    *before, last = path.rstrip("/").split("/")
    if glob.has_magic(last) and before:
        last = f"{before.pop()}/{last}"
    return f"{kind}{colon}{'…/' if before else ''}{last}"


def _percent(share: float | None) -> str | None:
    """Never more than was done: 100 % is all of it."""
    return None if share is None else f"{int(1000 * share) / 10:g} %"


def _date(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(" ", "seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
