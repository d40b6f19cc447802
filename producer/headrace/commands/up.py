"""`headrace up`: everything on this machine, until Ctrl-C."""

import signal
import subprocess
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer
from rich.console import Console

from headrace import local
from headrace.commands.flags import DEFAULT_MODEL, WorkerModel

_TRY = """
[bold green]Ready[/] at [bold]{url}[/]. From another terminal:

  headrace embed "carry water to the wheel"{flag}
  headrace models{flag}

or from Python:

  import headrace
  with headrace.SyncClient("{url}") as client:
      vectors = client.embed(["a text", "another"])

Ctrl-C drains and stops.
"""


def up(
    model: WorkerModel = DEFAULT_MODEL,
    store: Annotated[
        Path | None, typer.Option(help="Keep queued work here; without it, it is gone when this stops.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of nats-server; -1 takes a free one.")] = 4222,
    workers: Annotated[int, typer.Option(min=1, help="Workers to start; they share this machine's cores.")] = 1,
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
) -> None:
    """Run nats-server and a worker on this machine, and say how to use them."""
    # Both end it as Ctrl-C does: the contexts below drain and stop what they started. SIGINT is named too because a
    # shell that starts this in the background has it ignored.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    console = Console(stderr=True)
    try:
        with ExitStack() as stack:
            with console.status("starting nats-server and the worker"):
                server = stack.enter_context(local.server(store, port=port))
                children = [
                    stack.enter_context(local.worker(model, server.url, "--dtype", dtype)) for _ in range(workers)
                ]
            flag = "" if port == 4222 else f" --nats {server.url}"
            console.print(_TRY.format(url=server.url, flag=flag), highlight=False)
            _wait_for_any([server.process, *children])
            console.print("[red]a child ended by itself: see its last words above[/]")
    except KeyboardInterrupt:
        console.print("stopped")
        return
    raise typer.Exit(1)


def _wait_for_any(processes: "Iterable[subprocess.Popen[bytes]]") -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    for process in processes:
        threading.Thread(target=lambda child: ended.put(child.wait()), args=(process,), daemon=True).start()
    ended.get()
