"""`headrace reindex`: a corpus to vectors in a sink; the same command again goes on where it was ended.

Knows the flags and the exit codes. Does not know corpora, sinks or jobs.
"""

import hashlib
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from headrace_contracts import Dtype

from headrace.bulk.cut import Cut
from headrace.bulk.reindex import reindex as run
from headrace.bulk.settings import Settings
from headrace.bulk.show import How
from headrace.bulk.sink import Sink
from headrace.bulk.sinks.open_sink import open_sink
from headrace.bulk.sources.reading import Reading
from headrace.bulk.summary import Summary
from headrace.bulk.tolerance import Tolerance
from headrace.commands.flags import DEFAULT_NATS, Access, ModelName, Nats
from headrace.commands.long_run import INTERRUPTED, long_run
from headrace.commands.tables import rows_of
from headrace.commands.telling import Telling
from headrace.errors import HeadraceError, InputError

_VECTORS, _JOB, _READING = "Vectors", "Job", "Reading"
_SOME_FAILED = 3


def reindex(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    source: Annotated[
        str,
        typer.Argument(
            help="A file, folder or glob of Parquet, JSONL (.gz, .zst), CSV or Arrow files, a folder of Hugging Face's "
            "save_to_disk, or duckdb:QUERY."
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="SINK",
            help="parquet:DIR, numpy:DIR, lance:DIR#TABLE, qdrant:DIR-OR-URL#COLLECTION or postgresql://…#TABLE.",
        ),
    ],
    model: ModelName = None,
    job: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_JOB,
            help="Name of the job; the same name goes on with it. (default: of source, sink and model)",
        ),
    ] = None,
    column: Annotated[
        str, typer.Option(rich_help_panel=_READING, help="Column or field that holds the text.")
    ] = "text",
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            rich_help_panel=_READING,
            help="Column of the ids: text or whole numbers, each once. (default: file and row)",
        ),
    ] = None,
    source_kind: Annotated[
        str | None,
        typer.Option(rich_help_panel=_READING, help="parquet, jsonl, csv, arrow or duckdb. (default: by name)"),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(rich_help_panel=_READING, help="Between fields of CSV. (default: comma; tab in .tsv)"),
    ] = None,
    query_shards: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=_READING, help="Shards of a query: each process that reads one runs it."),
    ] = 1,
    prompt_name: Annotated[
        str | None, typer.Option(rich_help_panel=_VECTORS, help="One of the model's prompts to put before each text.")
    ] = None,
    dim: Annotated[int | None, typer.Option(rich_help_panel=_VECTORS, help="Leading dimensions to keep.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(rich_help_panel=_VECTORS, help="f32 or f16, for some models i8 or b1. (default: the model's)"),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(rich_help_panel=_VECTORS, help="Scale to length one. (default: as the checkpoint says)"),
    ] = None,
    truncate: Annotated[
        bool, typer.Option(rich_help_panel=_VECTORS, help="Cut texts that are too long, or have them fail.")
    ] = True,
    keep_text: Annotated[bool, typer.Option(rich_help_panel=_VECTORS, help="Keep texts beside the vectors.")] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", rich_help_panel=_VECTORS, help="Empty a sink that holds vectors of another model or kind."
        ),
    ] = False,
    skip_unchanged: Annotated[
        bool, typer.Option(rich_help_panel=_JOB, help="Embed no row that the sink has with the same text.")
    ] = True,
    dedupe: Annotated[
        bool, typer.Option(rich_help_panel=_JOB, help="Embed a text once that several rows of a window have.")
    ] = True,
    window_rows: Annotated[
        int, typer.Option(min=1, rich_help_panel=_JOB, help="Rows that are sent and written together.")
    ] = 8192,
    in_flight: Annotated[
        int,
        typer.Option(
            min=1, rich_help_panel=_JOB, help="Windows at a time, which bound memory and the share of the queue."
        ),
    ] = 8,
    max_errors: Annotated[
        str, typer.Option(rich_help_panel=_JOB, help="Rows that may fail before the job does: 5% or 1000.")
    ] = "10%",
    job_dir: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_JOB,
            help="Where errors and records go if the sink is no folder. (default: ./headrace-jobs)",
        ),
    ] = None,
    progress: Annotated[
        str, typer.Option(rich_help_panel=_JOB, help="bar, json (lines) or none, on standard error.")
    ] = "bar",
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Embed a corpus into a sink. Run the same command again after any crash: it goes on, and no row is there twice.

    Start it several times, on one machine or many: they share the work. Rows that fail are listed in errors.jsonl, and
    make the exit code 3. `headrace job` shows, pauses, cancels and verifies.
    """
    if progress not in get_args(How):
        raise InputError(f"--progress is {progress!r}: it must be {', '.join(get_args(How))}")
    telling = Telling(as_json=progress == "json")
    try:
        reading = Reading(
            column=column, id_column=id_column, kind=source_kind, delimiter=delimiter, query_shards=query_shards
        )
        settings = Settings(
            model=model,
            prompt_name=prompt_name,
            dim=dim,
            dtype=cast("Dtype | None", dtype),
            normalize=normalize,
            truncate=truncate,
            dedupe=dedupe,
            keep_texts=keep_text,
            skip_unchanged=skip_unchanged,
            replace=replace,
            cut=Cut(rows=window_rows),
            in_flight=in_flight,
            tolerance=Tolerance.parse(max_errors),
            folder=job_dir,
            remembered=reading.remembered(),
        )
        corpus, sink = reading.open(source), _lasting_sink(to)
        name = job or default_name(corpus.name, sink.name, model)
        summary = long_run(
            lambda counters: run(corpus, sink, job=name, url=nats, access=access, settings=settings, progress=counters),
            cast("How", progress),
        )
    except HeadraceError as error:
        telling.fail(error)
    if summary is None:
        telling.say(f"job {name} stopped here; the same command goes on with it", job=name, state="stopped")
        sys.exit(INTERRUPTED)
    errors = None if summary.errors is None else str(summary.errors)
    telling.say(_told(summary), **asdict(summary) | {"errors": errors, "state": "done"})
    sys.exit(_SOME_FAILED if summary.failed else 0)


def _lasting_sink(to: str) -> Sink:
    """The sink, if what it is given outlives the command."""
    if to.removeprefix("qdrant:").startswith(":memory:"):
        raise InputError(
            f"sink {to}: its vectors would be gone with the command: name a folder, qdrant:FOLDER#COLLECTION"
        )
    return open_sink(to)


def default_name(source: str, sink: str, model: str | None) -> str:
    """A job's name for those who give none: the same for the same work, wherever the command is given.

    Args:
        source: the corpus, by its whole name.
        sink: likewise.
        model: as it was given.
    """
    stems = (
        re.sub(r"[^A-Za-z0-9_-]+", "-", part.partition(".")[0]).strip("-") for part in reversed(Path(source).parts)
    )
    digest = hashlib.sha256("\0".join((source, sink, model or "")).encode()).hexdigest()[:8]
    return f"{next(filter(None, stems), 'job')[:40]}-{digest}"


def _told(summary: Summary) -> str:
    unchanged = f", {summary.unchanged:,} were there already" if summary.unchanged else ""
    rows = f"{summary.written:,} of {rows_of(summary.rows)} written{unchanged}"
    # Each machine has the errors that it found, where the job's files are in no shared folder.
    where = summary.errors or "errors.jsonl of the machine that found them"
    failed = f"; {rows_of(summary.failed)} failed, see {where}" if summary.failed else ""
    return f"job {summary.job} is done: {rows}{failed}"
