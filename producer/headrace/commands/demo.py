"""`headrace demo`: real sentences, real weights, a real nats-server, on this machine, in a minute."""

import tempfile
import time
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from headrace import local
from headrace.commands.flags import DEFAULT_MODEL, WorkerModel
from headrace.commands.signals import end_as_ctrl_c
from headrace.errors import InputError
from headrace.sync import SyncClient

_NEAREST = 3


def demo(
    model: WorkerModel = DEFAULT_MODEL,
    log: Annotated[Path | None, typer.Option(help="Keep the worker's log here.")] = None,
) -> None:
    """Embed a few hundred sentences and find the nearest to three questions; everything runs on this machine."""
    end_as_ctrl_c()
    console = Console()
    sentences, questions = _lines("sentences.txt"), _lines("questions.txt")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        with console.status("starting nats-server and a worker"):
            server = stack.enter_context(local.server())
            stack.enter_context(local.worker(model, server.url, log=log or directory / "worker.log"))
            client = stack.enter_context(SyncClient(server.url))
        (spec,) = client.models()
        # Only now: what a model can do is known from its files, which this side never reads.
        if "embed" not in spec.tasks:
            raise InputError(
                f"model is {model!r}: it can {' and '.join(spec.tasks)}, and the demo embeds: name an embedding model"
            )
        console.print(f"nats-server at {server.url}, a worker with [bold]{spec.name}[/]")
        with console.status(f"embedding {len(sentences)} sentences"):
            started = time.perf_counter()
            corpus = client.embed(sentences, strict=True)
            seconds = time.perf_counter() - started
        chunks = f"{corpus.usage.chunks} chunk{'' if corpus.usage.chunks == 1 else 's'}"
        console.print(f"{len(sentences)} sentences, {corpus.usage.tokens} tokens in {chunks}: {seconds:.2f} s")
        asked = client.embed(questions, strict=True)
        for question, scores in zip(questions, np.asarray(asked) @ np.asarray(corpus).T, strict=True):
            console.print(_answers(question, scores, sentences))
        with console.status("draining"):
            stack.close()
    console.print("\nNext: [bold]headrace up[/], then [bold]headrace embed[/] from another terminal.")


def _lines(name: str) -> list[str]:
    return (files("headrace") / "demo" / name).read_text("utf-8").splitlines()


def _answers(question: str, scores: NDArray[np.float32], sentences: list[str]) -> Table:
    table = Table(title=f"\n{question}", title_justify="left", title_style="bold", box=None, show_header=False)
    for index in np.argsort(-scores)[:_NEAREST]:
        table.add_row(f"{scores[index]:.3f}", sentences[index])
    return table
