"""`headrace up`: everything on this machine, until Ctrl-C."""

import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer
from headrace_contracts import Task
from rich.console import Console

from headrace import local
from headrace.commands.flags import DEFAULT_MODEL, WorkerModel
from headrace.commands.signals import end_as_ctrl_c
from headrace.sync import SyncClient

_TRY = """
[bold green]Ready[/] at [bold]{url}[/]. From another terminal:

{commands}
  headrace models{flag}

or from Python:

  import headrace
  with headrace.SyncClient("{url}") as client:
{calls}

Ctrl-C drains and stops.
"""
_COMMANDS: dict[Task, str] = {
    "embed": 'headrace embed "carry water to the wheel"',
    "score": 'headrace score "where does it go?" "down the race" "over the wheel"',
}
_CALLS: dict[Task, str] = {
    "embed": 'vectors = client.embed(["a text", "another"])',
    "score": 'scores = client.score("a query", ["a text", "another"])',
}


def up(
    model: WorkerModel = DEFAULT_MODEL,
    store: Annotated[
        Path | None, typer.Option(help="Keep queued work here; without it, it is gone when this stops.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of nats-server; -1 takes a free one.")] = 4222,
    workers: Annotated[int, typer.Option(min=1, help="Workers to start; they share this machine's cores.")] = 1,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, or float16 (CPUs).")] = "auto",
    monitor: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="HEADRACE_MONITOR",
            help="Tell the worker's metrics and health there; further workers have the ports that follow.",
        ),
    ] = None,
) -> None:
    """Run nats-server and a worker on this machine, and say how to use them."""
    end_as_ctrl_c()
    console = Console(stderr=True)
    try:
        with ExitStack() as stack:
            with console.status("starting nats-server and the worker"):
                server = stack.enter_context(local.server(store, port=port))
                # Workers that wait for each other's cores are slower than one: share them out.
                threads = 0 if workers == 1 else max(1, (os.cpu_count() or 1) // workers)
                flags = ("--dtype", dtype, "--threads", str(threads))
                children = [
                    stack.enter_context(local.worker(model, server.url, *flags, *_monitor(monitor, number)))
                    for number in range(workers)
                ]
            flag = "" if port == 4222 else f" --nats {server.url}"
            tasks = _tasks(server.url)
            commands = "\n".join(f"  {_COMMANDS[task]}{flag}" for task in tasks)
            calls = "\n".join(f"      {_CALLS[task]}" for task in tasks)
            console.print(_TRY.format(url=server.url, flag=flag, commands=commands, calls=calls), highlight=False)
            name = _wait_for_any(
                {"nats-server": server.process, **{f"worker {n}": w for n, w in enumerate(children, 1)}}
            )
            console.print(f"[red]{name} ended by itself, so all of it is stopped: start it again[/]")
    except KeyboardInterrupt:
        console.print("stopped")
        return
    raise typer.Exit(1)


def _monitor(address: str | None, number: int) -> tuple[str, ...]:
    """The flag of a worker's monitor, so many ports after the first one; what is no address the worker refuses."""
    if address is None:
        return ()
    host, _, port = address.rpartition(":")
    is_given = port.isascii() and port.isdecimal() and int(port) > 0  # 0 takes a free one each time
    return ("--monitor", f"{host}:{int(port) + number}" if is_given else address)


def _tasks(url: str) -> list[Task]:
    """What the models of the fleet can do."""
    with SyncClient(url) as client:
        return sorted({task for spec in client.models() for task in spec.tasks})


def _wait_for_any(processes: "Mapping[str, subprocess.Popen[bytes]]") -> str:
    """The name of the first one that ends, with its exit code."""
    ended: SimpleQueue[str] = SimpleQueue()

    def watch(name: str, process: "subprocess.Popen[bytes]") -> None:
        ended.put(f"{name} (exit code {process.wait()})")

    for named in processes.items():
        threading.Thread(target=watch, args=named, daemon=True).start()
    return ended.get()
