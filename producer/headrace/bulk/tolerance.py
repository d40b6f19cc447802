"""How many rows of a job may fail before all of it does. Pure."""

from dataclasses import dataclass
from typing import Self

from headrace.errors import InputError, JobFailed

# A share says little of fewer rows.
_LEAST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A share of the rows, or a number of them.

    Attributes:
        share: of the rows of a process, once it has seen a thousand.
        rows: that a process may see fail; None for any number.
        where: people find which rows failed, and why.
    """

    share: float = 1.0
    rows: int | None = None
    where: str = "the errors file"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `5%` or `1000`.

        Raises:
            InputError: it is neither.
        """
        number = text.removesuffix("%")
        try:
            value = float(number)
            if text.endswith("%") and 0 <= value <= 100:
                return cls(share=value / 100)
            if not text.endswith("%") and value >= 0 and value == int(value):
                return cls(rows=int(value))
        except (ValueError, OverflowError):
            pass
        raise InputError(f"max-errors is {text!r}: it must be a share, such as 5%, or a number of rows, such as 1000")

    def check(self, failed: int, rows: int, *, is_all: bool = False) -> None:
        """See that no more failed than may.

        Args:
            failed: rows that did.
            rows: of which.
            is_all: no more rows come.

        Raises:
            JobFailed: more did.
        """
        if self.rows is not None and failed > self.rows:
            raise self._failed(failed, rows, f"{self.rows:,}")
        if (is_all or rows >= _LEAST_ROWS) and failed > self.share * rows:
            raise self._failed(failed, rows, f"{100 * self.share:g}%")

    def _failed(self, failed: int, rows: int, allowed: str) -> JobFailed:
        return JobFailed(
            f"{failed:,} of {rows:,} rows have failed, more than --max-errors {allowed}: see {self.where}, mend the "
            "rows or allow more, and run the same command again"
        )
