"""What a bulk job came to."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of the whole job, by all processes and runs.

    Attributes:
        job: its name.
        rows: of the corpus.
        written: vectors that were made and written.
        unchanged: rows that the sink had already.
        failed: rows without a vector.
        tokens: that ran.
        errors: the file that says which rows failed and why; None if none did.
    """

    job: str
    rows: int
    written: int
    unchanged: int
    failed: int
    tokens: int
    errors: Path | None
