"""Which point of Qdrant a row is.

Pure. A point is numbered, or has a UUID: whole numbers from 0 stay what they are, other ids become a UUID that anybody
can compute from them. Does not know collections.
"""

from uuid import NAMESPACE_URL, UUID, uuid5

from headrace.bulk.rows import Id
from headrace.errors import SinkRefused

# Two, so that -1 and "-1" are two points.
STRINGS = uuid5(NAMESPACE_URL, "headrace:id")
NEGATIVE = uuid5(NAMESPACE_URL, "headrace:negative-id")

_MAX_INTEGER = 2**63


def point_of(each: Id) -> int | str:
    """The point of an id: the number, or a UUID, version 5: of the string in STRINGS, of a negative number in NEGATIVE.

    Raises:
        SinkError: it has none; the text names the id.
    """
    if isinstance(each, str):
        return str(_uuid(STRINGS, each))
    if isinstance(each, bool) or not -_MAX_INTEGER <= each < _MAX_INTEGER:
        raise SinkRefused(f"id {each!r:.80} cannot be a point of Qdrant: it is no 64-bit integer: give it as a string")
    return each if each >= 0 else str(_uuid(NEGATIVE, str(each)))


def _uuid(space: UUID, name: str) -> UUID:
    try:
        return uuid5(space, name)
    except UnicodeEncodeError:
        text = (
            f"id {name!r:.80} cannot be a point of Qdrant: it holds half of a surrogate pair, which is no text: choose "
            "another column for ids"
        )
        raise SinkRefused(text) from None
