"""Which columns of a corpus are read.

Knows their names as a user gives them, and what to say when there is no such column. Does not know formats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.errors import SourceError

# What the ids of a corpus are: all of them the same, since a sink has one type for them.
IdKind: TypeAlias = Literal["int", "str"]

_MAX_LISTED = 30


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a row that matter.

    Attributes:
        text: the name of the one with the text; `a.b` is field b of a nested column a, unless a column has that name.
        id: the same for the id; None names rows by their file and position.
    """

    text: str
    id: str | None = None

    def option(self, name: str) -> str:
        """The flag that says another name."""
        return "--column" if name == self.text else "--id"


def missing(columns: Columns, name: str, where: str, there: Sequence[str]) -> SourceError:
    """What to raise where there is no such column.

    Args:
        columns: all that are wanted.
        name: of the one that is missing.
        where: the file, for people.
        there: names of the columns that are there.
    """
    listed = ", ".join(there[:_MAX_LISTED]) + (f" and {len(there) - _MAX_LISTED} more" * (len(there) > _MAX_LISTED))
    has = f"there is {listed}" if there else "there is none at all"
    return SourceError(f"{where} has no column {name!r}: {has}; choose one with {columns.option(name)}")


def doubled(columns: Columns, name: str, where: str) -> SourceError:
    """What to raise where two columns have the name."""
    return SourceError(
        f"{where} has more than one column {name!r}: rename one of them, or choose another with {columns.option(name)}"
    )
