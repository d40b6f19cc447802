"""`headrace access`: the users of a fleet, for nats-server and for themselves.

Knows the flags. Does not know what a role may do (contracts, access.py), nor how files are written (fleet_users.py).
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from headrace_contracts import InvalidName
from headrace_contracts.access import OF_A_MODEL, ROLES, Scope, permissions

from headrace.errors import InputError
from headrace.fleet_users import FleetUsers, checked

access = typer.Typer(help="Users of a fleet with access control: make, show, remove.", no_args_is_help=True)

Folder: TypeAlias = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the fleet's users.")]
Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Only this one; again for more. Role bulk and worker need it."),
]
Shards: TypeAlias = Annotated[int, typer.Option(min=1, help="As workers have it: --shards.")]
Queues: TypeAlias = Annotated[int, typer.Option(min=1, help="As workers have it: --queues.")]
MayProvision: TypeAlias = Annotated[
    bool,
    typer.Option("--may-provision", help="Workers and bulk jobs may create what is not there."),
]


@access.command()
def new(
    users: Annotated[
        list[str], typer.Argument(metavar="ROLE:NAME...", help=f"Whom to make; roles are {', '.join(ROLES)}.")
    ],
    out: Folder = Path("access"),
    model: Models = None,
    shards: Shards = 1,
    queues: Queues = 4,
    may_provision: MayProvision = False,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Who signs the servers' certificates: TLS is asked for.")
    ] = None,
) -> None:
    """Make users, beside those that are there; one that is there gets the role and models that are given now.

    In DIR are then authorization.conf, to be included in nats-server's configuration, and NAME.toml for each user, to
    be given to it alone: --access NAME.toml.
    """
    scope = _scope(model, shards, queues, may_provision=may_provision)
    wanted = [each.partition(":") for each in users]
    for role, colon, name in wanted:
        if not colon:
            raise InputError(f"{role!r} is no ROLE:NAME, such as query:search")
        checked(name, role, scope)
    said = []
    with FleetUsers.changing(out) as found:
        for role, _, name in wanted:
            is_new = found.add(name, role, scope, ca)
            said.append(f"{'made' if is_new else 'changed'} {name}: {role}, {found.access_file(name)}")
    typer.echo("\n".join(said))
    typer.echo(f"nats-server needs {found.authorization}, and a reload: nats-server --signal reload", err=True)


@access.command("ls")
def list_users(out: Folder = Path("access")) -> None:
    """List the users that were made."""
    for name, user in sorted(FleetUsers(out).users.items()):
        models = ", ".join(user.scope.models) or "all models"
        typer.echo(f"{name}\t{user.role}\t{models}\t{user.nkey}")


@access.command()
def rm(name: Annotated[str, typer.Argument(help="Of the user.")], out: Folder = Path("access")) -> None:
    """Remove a user: once nats-server has reloaded, it is let in no more and its connections end."""
    FleetUsers(out).remove(name)  # refuses one that is not there before anything is made
    with FleetUsers.changing(out) as found:
        found.remove(name)
    typer.echo(f"removed {name}; nats-server needs a reload: nats-server --signal reload")


@access.command()
def show(
    role: Annotated[str, typer.Argument(help=", ".join(ROLES))],
    model: Models = None,
    shards: Shards = 1,
    queues: Queues = 4,
    may_provision: MayProvision = False,
) -> None:
    """Print what a role may publish and subscribe."""
    known = next((each for each in ROLES if each == role), None)
    if known is None:
        raise InputError(f"role {role!r} is none: there are {', '.join(ROLES)}")
    models = model or (["MODEL"] if known in OF_A_MODEL else None)
    # What stands for a model in what is printed need not be the name of one.
    scope = _scope([each.lower() for each in models] if models else None, shards, queues, may_provision=may_provision)
    granted = permissions(known, "USER", scope)
    for action in ("publish", "subscribe"):
        typer.echo(f"{action}:")
        for each in getattr(granted, action):
            typer.echo(f"  {each}")


def _scope(models: list[str] | None, shards: int, queues: int, *, may_provision: bool) -> Scope:
    try:
        return Scope(models=tuple(models or ()), shards=shards, queues=queues, may_provision=may_provision)
    except InvalidName as error:
        raise InputError(str(error)) from error
