"""`headrace embed`: texts from the command line or a file, vectors to the terminal or a file.

Knows the flags. Does not know file formats (files.py) or the bar (slices.py).
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import typer
from headrace_contracts import Dtype, Priority

from headrace.commands import files
from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, ModelName, Nats
from headrace.commands.slices import in_slices, report
from headrace.sync import SyncClient


def embed(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    texts: Annotated[list[str], typer.Argument(metavar="TEXT... | FILE", help="Texts, a .txt or .jsonl file, or -.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .npy or .parquet file. (default: JSON lines to stdout)")
    ] = None,
    model: ModelName = None,
    priority: Annotated[
        str | None, typer.Option(help="online or batch. (default: batch for a file, else online)")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's prompts to put before each text.")] = None,
    dim: Annotated[int | None, typer.Option(help="Leading dimensions to keep.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="f32 or f16, for some models i8 or b1. (default: the model's)")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds. (default: 30 online, 3600 batch)")] = None,
    truncate: Annotated[bool, typer.Option(help="Cut texts that are too long, or give them no vector.")] = True,
    column: Annotated[str, typer.Option(help="Field of a .jsonl line that holds the text.")] = "text",
    retries: Annotated[int, typer.Option(min=0, help="How often to try again what is refused as overloaded.")] = 0,
    tenant: Annotated[str | None, typer.Option(help="In whose name; tenants share the fleet.")] = None,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Embed texts. Exit code 3 says that some of them have no vector; standard error says which and why."""
    source = files.read(texts, column)
    if output is not None:
        files.check_output(output)
    with SyncClient(nats, timeout=CONNECT_S, access=access) as client:
        call = partial(
            client.embed,
            model=model,
            priority=cast("Priority", priority or ("batch" if source.is_file else "online")),
            prompt_name=prompt_name,
            dim=dim,
            dtype=cast("Dtype | None", dtype),
            timeout=timeout,
            retries=retries,
            tenant=tenant,
            truncate=truncate,
        )
        parts = []
        for first, vectors in in_slices(call, client, source.texts, "embedding"):
            parts.append(vectors)
            if output is None:
                files.print_lines(source.texts[first : first + len(vectors)], vectors)
    if output is not None:
        files.write(output, source.texts, parts)
        typer.secho(f"{len(source.texts)} vector{'' if len(source.texts) == 1 else 's'} to {output}", err=True)
    sys.exit(report(parts, "text"))
