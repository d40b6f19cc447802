"""`headrace provision`: the command line by which an operator makes and mends what a fleet has in the broker.

Knows flags, how findings are shown, and exit codes: 0 all stands as the flags say, 1 it cannot be told or the broker
refused, 2 for a wrong flag, 3 something is absent or differs. Light to import, since every `headrace` command imports
it: torch comes in when it is run.
"""

import asyncio
import json as json_
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from headrace_contracts.credentials import Credentials

from headrace_workers.config import WorkerConfig
from headrace_workers.errors import WorkerError

if TYPE_CHECKING:
    from headrace_workers.difference import Setting
    from headrace_workers.upkeep import Finding

_DIFFERS = 3
_MIB = 1024 * 1024
_DAY = 24 * 3600.0
_SIGNS = {"same": " ", "absent": "-", "differs": "!", "created": "+", "changed": "~", "refused": "!"}


def provision(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    model: Annotated[
        str | None,
        typer.Argument(help="As headrace worker takes it. Without one: what all models of a fleet share."),
    ] = None,
    nats: Annotated[str, typer.Option(envvar="HEADRACE_NATS", help="URL of nats-server; several with commas.")] = (
        "nats://127.0.0.1:4222"
    ),
    access: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="HEADRACE_ACCESS", help="Access file of a user of role operator."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Change what differs, where nothing that is stored can be lost by it.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name that the model is served under. (default: from MODEL)")] = None,
    max_chunk_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens of one chunk; give workers the same. (default: as published, or what a worker has)"),
    ] = None,
    shards: Annotated[int, typer.Option(help="Servers of a cluster that online work is spread over.")] = 1,
    placement: Annotated[str, typer.Option(help="Tag of the server of each shard, with commas.")] = "",
    queues: Annotated[int, typer.Option(help="Online queues of a shard, which tenants are spread over.")] = 4,
    replicas: Annotated[int, typer.Option(help="Copies of what is on disk.")] = 1,
    online_ack_wait: Annotated[float, typer.Option(help="Seconds until an unanswered online chunk goes on.")] = 10,
    batch_ack_wait: Annotated[float, typer.Option(help="The same for batch.")] = 60,
    batch_mib: Annotated[int, typer.Option(help="MiB of bulk work that a model may have queued.")] = 1024,
    results_mib: Annotated[int, typer.Option(help="MiB of results that wait for their sinks.")] = 4096,
    results_days: Annotated[float, typer.Option(help="Days that a result may wait; 0 is no limit.")] = 7,
    dead_mib: Annotated[int, typer.Option(help="MiB of dead letters; the oldest go first.")] = 1024,
    dead_days: Annotated[float, typer.Option(help="Days that a dead letter is kept; 0 is no limit.")] = 30,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON, a line a part.")] = False,
) -> None:
    """Make the NATS streams, consumers and buckets of a model and its fleet, and say what differs from these flags.

    Run it again as often as you like, with the same flags: they say what is wanted. What is absent is made; what
    differs is told, and changed with --update where nothing can be lost. Exit code 0: all is as wanted; 3: something
    is absent or differs still.
    """
    if dry_run and update:
        raise typer.BadParameter("--dry-run and --update exclude each other: leave out one of them")
    try:
        config = WorkerConfig(
            nats_url=nats,
            access=None if access is None else Credentials.read(access),
            name=name,
            max_chunk_tokens=max_chunk_tokens,
            # Workers bring steps as large as their chunks.
            step_tokens=max_chunk_tokens,
            shards=shards,
            placement=WorkerConfig.read_placement(placement),
            queues=queues,
            replicas=replicas,
            online_ack_wait_s=online_ack_wait,
            batch_ack_wait_s=batch_ack_wait,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        # Deferred: torch takes seconds to import, and a client-only installation has none.
        from headrace_workers.provision_run import EngineError, run  # noqa: PLC0415
        from headrace_workers.upkeep import Sizes  # noqa: PLC0415
    except ImportError as error:
        _fail(f"this needs more than the client ({error}): pip install 'headrace[worker]'")
    try:
        sizes = Sizes(
            batch_bytes=batch_mib * _MIB,
            results_bytes=results_mib * _MIB,
            results_age_s=results_days * _DAY,
            dead_bytes=dead_mib * _MIB,
            dead_age_s=dead_days * _DAY,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        found = asyncio.run(run(model, config, sizes, create=not dry_run, update=update))
    except (EngineError, WorkerError) as error:
        _fail(str(error))
    _show(found, as_json=json)
    if any(finding.state == "refused" for finding in found):
        raise typer.Exit(1)
    if not all(finding.is_well for finding in found):
        raise typer.Exit(_DIFFERS)


def _show(found: "Sequence[Finding]", *, as_json: bool) -> None:
    for finding in found:
        if as_json:
            typer.echo(json_.dumps(_as_facts(finding)))
            continue
        typer.echo(f"{_SIGNS[finding.state]} {finding.state:8} {finding.part.kind} {finding.part.name}")
        for line in _lines(finding):
            typer.echo(f"             {line}")
    if not as_json and any(each for finding in found if finding.state == "differs" for each in _changeable(finding)):
        typer.echo("--update changes what differs, but for what has its reason beside it", err=True)


def _changeable(finding: "Finding") -> "list[Setting]":
    return [setting for setting in finding.settings if not setting.obstacle]


def _lines(finding: "Finding") -> list[str]:
    """What there is to say of its settings."""
    lines = [f"{each.name}: {_text(each.found)} → {_text(each.wanted)}, changed" for each in finding.changed]
    for each in finding.settings:
        reason = f" ({each.obstacle})" if each.obstacle else ""
        lines.append(f"{each.name}: {_text(each.found)} → {_text(each.wanted)}{reason}")
    return [*lines, *([finding.reason] if finding.reason else [])]


def _text(value: object) -> str:
    return "nothing" if value is None else json_.dumps(value)


def _as_facts(finding: "Finding") -> dict[str, object]:
    def facts(settings: "Sequence[Setting]") -> list[dict[str, object]]:
        return [
            {"name": each.name, "is": each.found, "wanted": each.wanted, "obstacle": each.obstacle} for each in settings
        ]

    return {
        "kind": finding.part.kind,
        "name": finding.part.name,
        "state": finding.state,
        "differs": facts(finding.settings),
        "changed": facts(finding.changed),
        "reason": finding.reason,
    }


def _fail(text: str) -> NoReturn:
    typer.secho(f"headrace provision: {text}", err=True, fg="red")
    raise typer.Exit(1)
