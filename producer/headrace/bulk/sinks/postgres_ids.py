"""Which ids can be a key in Postgres, and of which type.

Pure. Does not know tables.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from headrace.bulk.rows import Id
from headrace.errors import SinkRefused

IdType: TypeAlias = Literal["bigint", "text"]

# An entry of a B-tree holds 2704 bytes, with some of its own.
_MAX_BYTES = 2600
_MAX_INTEGER = 2**63


def type_of(ids: Sequence[Id]) -> IdType:
    """The type of column that holds all of these ids.

    Raises:
        SinkError: there is none; the text names the first id that does not fit.
    """
    kind: IdType = "text" if isinstance(ids[0], str) else "bigint"
    for each in ids:
        if problem := _problem(each, kind):
            raise SinkRefused(f"id {shown(each)} cannot be a key in Postgres: it {problem}")
    return kind


def possible(ids: Sequence[Id], kind: IdType) -> list[Id]:
    """Of these ids, those that a column of the type can hold."""
    return [each for each in ids if _problem(each, kind) is None]


def shown(each: Id) -> str:
    """An id for people, however long it is."""
    return repr(each) if len(repr(each)) <= 80 else f"{each!r:.60}… ({len(repr(each))} characters)"


def _problem(each: Id, kind: IdType) -> str | None:
    if kind == "bigint":
        return _problem_of_integer(each)
    if not isinstance(each, str):
        return "is no string, as the others are: give ids of one type, such as a string column"
    if "\0" in each:
        return "holds a NUL character: choose another column for ids"
    try:
        size = len(each.encode())
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no text: choose another column for ids"
    if size > _MAX_BYTES:
        return f"has {size} bytes, more than {_MAX_BYTES}: choose another column for ids"
    return None


def _problem_of_integer(each: Id) -> str | None:
    if isinstance(each, bool) or not isinstance(each, int):
        return "is no integer, as the others are: give ids of one type, such as a string column"
    if not -_MAX_INTEGER <= each < _MAX_INTEGER:
        return "is no 64-bit integer: give it as a string"
    return None
