"""Puts rows that come one by one together into Rows.

Knows how many rows and characters are held at a time. Does not know where they come from.
"""

from collections.abc import Iterable, Iterator

from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.source import MAX_ROWS
from headrace.bulk.sources.columns import IdKind
from headrace.bulk.sources.values import to_id, to_text

# Of the texts that are held at a time; the last of them may exceed it.
MAX_CHARACTERS = 16_000_000


def row(position: str, id_value: object, text_value: object, kind: IdKind | None) -> tuple[Id, str | Problem]:
    """A row, of the values in it.

    Args:
        position: what names it to people where the id does not.
        id_value: of the id's column.
        text_value: of the text's column.
        kind: what ids of this corpus are.
    """
    found = to_id(id_value, kind)
    return (position, found) if isinstance(found, Problem) else (found, to_text(text_value))


def in_rows(pairs: Iterable[tuple[Id, str | Problem]], first: int) -> Iterator[Rows]:
    """Put them together, the first of which has position `first`."""
    ids: list[Id] = []
    texts: list[str | Problem] = []
    characters = 0
    for id_, text in pairs:
        ids.append(id_)
        texts.append(text)
        characters += len(text) if isinstance(text, str) else 0
        if len(ids) == MAX_ROWS or characters >= MAX_CHARACTERS:
            yield Rows(first, ids, texts)
            first += len(ids)
            ids, texts, characters = [], [], 0
    if ids:
        yield Rows(first, ids, texts)
