"""From a value of a row to an id or a text, or to the reason why it is none.

Knows the types that readers give: those of JSON, CSV and SQL. Does not know files or columns.
"""

from decimal import Decimal
from uuid import UUID

from headrace.bulk.rows import Id, Problem
from headrace.bulk.sources.columns import IdKind
from headrace.texts import read_text

# Of one text or one line. More is no document, and would take the memory of all other rows.
MAX_BYTES = 64 << 20

_SHOWN = 60


def to_text(value: object) -> str | Problem:
    """The text that a value is. A lone surrogate becomes U+FFFD, as in `Client.embed`."""
    if isinstance(value, str):
        if len(value) > MAX_BYTES:
            return too_long(len(value), "characters")
        return read_text(value, "text")
    if isinstance(value, (bytes, bytearray)):
        return from_bytes(value)
    if value is None:
        return Problem("null", "there is no text")
    return Problem("not_a_string", f"the text is {_shown(value)}: a string is wanted")


def from_bytes(value: bytes | bytearray) -> str | Problem:
    """The text that bytes spell."""
    if len(value) > MAX_BYTES:
        return too_long(len(value), "bytes")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return invalid_utf8(error)


def to_id(value: object, kind: IdKind | None = None) -> Id | Problem:
    """The id that a value is.

    Args:
        value: the value.
        kind: what ids of this corpus are; None takes either.
    """
    found = _id(value)
    if isinstance(found, Problem) or kind is None or kind == id_kind(found):
        return found
    return Problem("no_id", f"the id is {_shown(value)}, while others are of type {kind}: a sink has one type for all")


def id_kind(value: Id) -> IdKind:
    """What an id is."""
    return "str" if isinstance(value, str) else "int"


def invalid_utf8(error: UnicodeDecodeError) -> Problem:
    """Bytes that are no text."""
    return Problem("invalid_utf8", f"byte {error.start} of the text is {error.object[error.start]:#04x}: not UTF-8")


def too_long(length: int, unit: str) -> Problem:
    """A text that is not read."""
    return Problem("too_long", f"the text has {length} {unit}, at most {MAX_BYTES} are read")


def _id(value: object) -> Id | Problem:
    if isinstance(value, (str, UUID)):
        return _string(str(value))
    if isinstance(value, (bytes, bytearray)):
        text = from_bytes(value)
        return _string(text) if isinstance(text, str) else Problem("no_id", f"of the id: {text.text}")
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    # A bool is an int to Python, and no id to anybody.
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value)
    found = "there is no id" if value is None else f"the id is {_shown(value)}"
    return Problem("no_id", f"{found}: an integer or a string is wanted")


def _integer(value: int) -> int | Problem:
    if -(1 << 63) <= value < 1 << 63:
        return value
    return Problem("no_id", f"the id is {_shown(value)}, which 64 bits with a sign cannot hold: make it a string")


def _string(value: str) -> str | Problem:
    if not value:
        return Problem("no_id", "the id is an empty string")
    if len(value) > MAX_BYTES:
        return Problem("no_id", f"the id has {len(value)} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return Problem(
                "no_id", f"the id is {ascii(value)[:_SHOWN]}, which is not Unicode: half of a pair stands alone"
            )
    return value


def _shown(value: object) -> str:
    # Python writes no integer of more than some thousand digits, nor do people read one.
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return f"{ascii(value)[:_SHOWN]} ({type(value).__name__})"
