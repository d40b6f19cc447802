"""How a bulk job is to be done.

Knows each setting, its default and its bounds. Does not know corpora or sinks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from headrace_contracts import Dtype, InvalidName, subjects

from headrace.bulk.cut import Cut
from headrace.bulk.jobs.record import JobRecord, Option
from headrace.bulk.tolerance import Tolerance
from headrace.errors import InputError
from headrace.options import EmbedOptions, check_count

# The option under which a job remembers where its files are.
JOB_DIR = "job_dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to embed a corpus.

    Attributes:
        model: served name; None takes the only one of the fleet that embeds.
        prompt_name: one of the model's prompts to put before each text; None takes its default, if any.
        dim: leading dimensions to keep; None keeps all.
        dtype: element type of the vectors; None takes the one that the model was trained for.
        normalize: scale vectors to length one; None does what the checkpoint says.
        truncate: cut texts that are too long; if false they fail.
        dedupe: embed a text once that several rows of a window have.
        keep_texts: hand texts to the sink, too.
        skip_unchanged: do not embed rows that the sink has already, with the same text.
        replace: empty a sink that holds vectors of another card.
        cut: limits of a window.
        in_flight: windows of one process at a time, which bound its memory and its part of the queue.
        tolerance: how many rows may fail.
        folder: for the job's files, where the sink is no folder itself; None takes ./headrace-jobs.
        remembered: how the source is read, which the job's record keeps so that an audit can open it again.
        lease_s: after this long without a sign of a process others take its shard over; the same for all of a job.
        trusts_sink: look up what is unchanged; false embeds all rows of the windows that are to be done, whatever the
            sink says it has.

    Raises:
        InputError: one of them is out of bounds.
    """

    model: str | None = None
    prompt_name: str | None = None
    dim: int | None = None
    dtype: Dtype | None = None
    normalize: bool | None = None
    truncate: bool = True
    dedupe: bool = True
    keep_texts: bool = False
    skip_unchanged: bool = True
    replace: bool = False
    cut: Cut = field(default_factory=Cut)
    in_flight: int = 8
    tolerance: Tolerance = field(default_factory=Tolerance)
    folder: Path | None = None
    remembered: Mapping[str, Option] = field(default_factory=dict)
    lease_s: float = 20
    trusts_sink: bool = True

    def __post_init__(self) -> None:
        check_count("in_flight", self.in_flight)
        check_count("cut.rows", self.cut.rows)
        check_count("cut.characters", self.cut.characters)
        if not 0 < self.lease_s < math.inf:
            raise InputError(f"lease_s is {self.lease_s}: it must be a number of seconds above 0")
        self.embed_options()  # finds what is wrong with the others

    @classmethod
    def of(cls, record: JobRecord, *, folder: Path | None = None) -> Self:
        """Those that a job was begun with, to do again what an audit has found wrong: so they do not trust the sink."""
        card, options = record.card, record.options
        prompt_name = options.get("prompt_name")
        return cls(
            model=card.model,
            prompt_name=None if prompt_name is None else str(prompt_name),
            dim=card.dim,
            dtype=card.dtype,
            normalize=card.normalize,
            truncate=bool(options["truncate"]),
            dedupe=bool(options["dedupe"]),
            keep_texts=bool(options["keep_texts"]),
            skip_unchanged=bool(options["skip_unchanged"]),
            cut=record.cut,
            folder=folder or job_dir(record),
            remembered={name: value for name, value in options.items() if name.startswith("read_")},
            trusts_sink=False,
        )

    def embed_options(self) -> EmbedOptions:
        """What they say of each text."""
        return EmbedOptions(
            priority="batch",
            prompt_name=self.prompt_name,
            dim=self.dim,
            dtype=self.dtype,
            normalize=self.normalize,
            truncate=self.truncate,
        )


def job_dir(record: JobRecord) -> Path | None:
    """Where a job's files are, if not beside its vectors."""
    remembered = record.options.get(JOB_DIR)
    return None if remembered is None else Path(str(remembered))


def check_job(name: str) -> str:
    """The name, if a job may have it.

    Raises:
        InputError: it may not.
    """
    try:
        # A shard's results consumer is named for job and shard; there must be room.
        return subjects.token(name, "job")
    except InvalidName as error:
        raise InputError(str(error)) from None
