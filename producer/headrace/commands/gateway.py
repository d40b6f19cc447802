"""`headrace gateway`: serve the fleet over HTTP, until Ctrl-C.

Knows the flags and the signals. Does not know HTTP; what does is imported late, for it is an extra.
"""

import asyncio
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace import telemetry
from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, Nats
from headrace.commands.telling import exit_code
from headrace.errors import HeadraceError, InputError
from headrace.gateway.keys import Keys
from headrace.gateway.tuning import tune

logger = logging.getLogger(__name__)

_PANEL = "Limits"
_KEYS = "HEADRACE_API_KEYS"
_INTERRUPTED = 130


def gateway(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    api_keys_file: Annotated[
        Path | None,
        typer.Option(help=f"Let in only these: lines of name:key; the name is the tenant. ${_KEYS} does the same."),
    ] = None,
    drain: Annotated[float, typer.Option(min=0, help="Seconds for requests in flight, once told to stop.")] = 30,
    max_body_bytes: Annotated[int, typer.Option(min=1, rich_help_panel=_PANEL, help="Of a request.")] = 2_000_000,
    max_items: Annotated[
        int, typer.Option(min=1, rich_help_panel=_PANEL, help="Texts or documents of a request.")
    ] = 2048,
    max_tokens: Annotated[int, typer.Option(min=1, rich_help_panel=_PANEL, help="Of a request.")] = 300_000,
    max_concurrent: Annotated[
        int, typer.Option(min=1, rich_help_panel=_PANEL, help="Requests at a time; more are refused.")
    ] = 512,
    max_connections: Annotated[
        int, typer.Option(min=1, rich_help_panel=_PANEL, help="Open connections, idle ones too; more wait.")
    ] = 4096,
    max_timeout: Annotated[
        float, typer.Option(min=0.001, rich_help_panel=_PANEL, help="Seconds that a caller may wait.")
    ] = 600,
) -> None:
    """Serve the fleet over HTTP: the APIs of OpenAI, Cohere and text-embeddings-inference."""
    try:
        from headrace.gateway.limits import Limits  # noqa: PLC0415 - an extra: the command must be there without it
        from headrace.gateway.serve import GatewayConfig, serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        raise InputError(f"{name} is not installed: pip install 'headrace[gateway]'") from error
    config = GatewayConfig(
        nats=nats,
        access=access,
        host=host,
        port=port,
        keys=_keys(api_keys_file),
        drain_s=drain,
        limits=Limits(
            max_body_bytes=max_body_bytes,
            max_items=max_items,
            max_tokens=max_tokens,
            max_concurrent=max_concurrent,
            max_connections=max_connections,
            max_timeout_s=max_timeout,
        ),
    )

    async def run() -> int:
        stop, hurry = asyncio.Event(), asyncio.Event()

        def on_signal() -> None:
            if stop.is_set():
                hurry.set()
            else:
                logger.info("finishing what runs, for %g s at most; a second signal gives it up", drain)
                stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        await serve(config, stop, _begin, hurry=hurry, connect_s=CONNECT_S)
        return _INTERRUPTED if hurry.is_set() else 0

    try:
        code = asyncio.run(run())
    except HeadraceError as error:
        logger.critical("%s", error)
        sys.exit(exit_code(error))
    telemetry.finish()
    # Not by way of the interpreter's end: a thread of Granian's that asks for Python's lock then aborts the process.
    sys.stderr.flush()
    os._exit(code)


def _keys(path: Path | None) -> Keys | None:
    """The keys of the file, or else of the environment; None lets all in.

    Raises:
        InputError: they cannot be read.
    """
    if path is not None:
        try:
            return Keys.parse(path.read_text("utf-8").splitlines(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--api-keys-file {path} cannot be read: {error}") from error
    # Not a flag with envvar=, which takes an empty variable for none: that would let everybody in.
    found = os.environ.get(_KEYS)
    return None if found is None else Keys.parse(re.split(r"[,\n]", found), _KEYS)


def _begin(url: str) -> None:
    tune()
    told = "headrace gateway at %s, described by %s/openapi.json; Ctrl-C finishes what runs, and stops"
    logger.info(told, url, url, extra={"url": url})
