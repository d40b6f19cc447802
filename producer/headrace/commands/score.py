"""`headrace score`: a query and documents from the command line or a file, scores to the terminal.

Knows the flags and the lines that it writes. Does not know file formats (files.py) or the bar (slices.py).
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, cast

import numpy as np
import typer
from headrace_contracts import Priority

from headrace.commands import files
from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, ModelName, Nats
from headrace.commands.slices import in_slices, report
from headrace.scores import Scores, rank
from headrace.sync import SyncClient


def score(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the documents should answer.")],
    documents: Annotated[
        list[str], typer.Argument(metavar="DOCUMENT... | FILE", help="Documents, a .txt or .jsonl file, or -.")
    ],
    top: Annotated[
        int | None, typer.Option(min=1, help="The best so many, best first. (default: all, in order)")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Scores without the model's final activation.")] = False,
    model: ModelName = None,
    priority: Annotated[
        str | None, typer.Option(help="online or batch. (default: batch for a file, else online)")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's prompts to instruct it with.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds. (default: 30 online, 3600 batch)")] = None,
    truncate: Annotated[bool, typer.Option(help="Cut documents that are too long, or give them no score.")] = True,
    column: Annotated[str, typer.Option(help="Field of a .jsonl line that holds the document.")] = "text",
    retries: Annotated[int, typer.Option(min=0, help="How often to try again what is refused as overloaded.")] = 0,
    tenant: Annotated[str | None, typer.Option(help="In whose name; tenants share the fleet.")] = None,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Score documents by their relevance to a query: a JSON line each. Exit code 3 says that some have no score."""
    source = files.read(documents, column)
    with SyncClient(nats, timeout=CONNECT_S, access=access) as client:
        call = partial(
            client.score,
            query,
            model=model,
            priority=cast("Priority", priority or ("batch" if source.is_file else "online")),
            prompt_name=prompt_name,
            raw=raw,
            timeout=timeout,
            retries=retries,
            tenant=tenant,
            truncate=truncate,
        )
        parts = []
        for first, scores in in_slices(call, client, source.texts, "scoring"):
            parts.append(scores)
            if top is None:
                _print_in_order(first, scores, source.texts)
    if top is not None:
        for ranked in rank(np.concatenate([np.asarray(part) for part in parts]), top):
            _print(ranked.index, files.shown(ranked.score), source.texts)
    sys.exit(report(parts, "document"))


def _print_in_order(first: int, scores: Scores, texts: Sequence[str]) -> None:
    for index, number in enumerate(scores.tolist()):
        if index in scores.errors:
            error = scores.errors[index]
            _print(first + index, f"{error.code}: {error.text}", texts)
        else:
            _print(first + index, files.shown(number), texts)


def _print(index: int, found: float | str, texts: Sequence[str]) -> None:
    key = "error" if isinstance(found, str) else "score"
    typer.echo(json.dumps({"index": index, key: found, "text": texts[index]}, ensure_ascii=False))
