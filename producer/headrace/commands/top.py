"""`headrace top`: the fleet at a glance, as it goes.

Knows flags, the terminal and when something is drawn. What it looks like is in top_view.py.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from headrace_contracts.control import encode_status
from headrace_contracts.credentials import Credentials
from nats.aio.client import Client as NatsClient
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, Nats
from headrace.commands.signals import end_as_ctrl_c
from headrace.commands.tables import print_json
from headrace.commands.top_view import Picture, lines
from headrace.errors import ConnectionFailed, InputError
from headrace.reach import reached
from headrace.survey import Surveyor, surveying
from headrace.workforce import Workforce

_PIPE_WIDTH = 80


def top(
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="Look so often.")] = 2,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that is known once, as JSON, and end.")] = False,
) -> None:
    """Show workers, queues, bulk jobs, dead letters and the broker, as they go, until Ctrl-C.

    It goes on while nats-server is gone, and says so.
    """
    console = Console(highlight=False)
    if not (once or as_json or console.is_terminal):
        raise InputError("standard output is no terminal: print it with --once or --json")
    end_as_ctrl_c()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _print_once(nats, access, as_json=as_json) if once or as_json else _go(nats, access, every, console)
        )


async def _print_once(url: str, access: Credentials | None, *, as_json: bool) -> None:
    async with _looking(url, access) as look:
        picture = await look.take(wait=True)
    if as_json:
        print_json(_facts(picture))
        return
    for line in lines(picture, _PIPE_WIDTH):
        typer.echo(line.plain)


async def _go(url: str, access: Credentials | None, every_s: float, console: Console) -> None:
    async with _looking(url, access) as look:
        # On the terminal's second screen: when it ends, all is there again as it was.
        with Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
            while True:
                live.update(_fitted(lines(await look.take(), console.width), console.height), refresh=True)
                await asyncio.sleep(every_s)  # a clock's tick is what it waits for


def _fitted(shown: list[Text], height: int) -> Group:
    """As many lines as there is room for; and how many there are besides."""
    if len(shown) > height:
        more = len(shown) - height + 1
        shown = [*shown[: height - 1], Text(f"… and {more} more lines: --once prints all of them", "dim")]
    return Group(*shown)


class _Look:
    """Looks at one fleet again and again."""

    def __init__(self, nats: NatsClient, surveyor: Surveyor) -> None:
        self._nats = nats
        self._surveyor = surveyor

    async def take(self, *, wait: bool = False) -> Picture:
        """A picture of now; `wait` until all workers that are no micro services were heard, too."""
        statuses, trouble = None, "there is no connection to nats-server"
        if wait:
            await self._surveyor.all_heard()
        if self._nats.is_connected:
            try:
                statuses = await Workforce(self._nats).all()
            except ConnectionFailed as error:
                trouble = str(error)
        return Picture(survey=await self._surveyor.take(), statuses=statuses, trouble=trouble)


@asynccontextmanager
async def _looking(url: str, access: Credentials | None) -> AsyncIterator[_Look]:
    client_id = secrets.token_hex(8)
    async with (
        reached(url, name="headrace top", client_id=client_id, timeout_s=CONNECT_S, access=access) as (nats, _),
        surveying(nats) as surveyor,
    ):
        yield _Look(nats, surveyor)


def _facts(picture: Picture) -> dict[str, Any]:
    statuses = picture.statuses
    return {
        **asdict(picture.survey),
        "workers": None if statuses is None else [json.loads(encode_status(each)) for each in statuses],
    }
