"""A JSON file of a checkpoint, read strictly.

It knows files, fields and types. It does not know what any field means.
"""

import json
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from headrace_engine.errors import CheckpointError

T = TypeVar("T")
# Far beyond any vocabulary, width or context; what is above would fill the memory before a tensor is missed.
MAX_SIZE = 1 << 24
# The deepest models have some hundred layers.
MAX_LAYERS = 1 << 12


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON object and the file it came from, which every complaint names.

    Attributes:
        path: The file.
        values: Its fields.
    """

    path: Path
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file that holds one JSON object.

        Raises:
            CheckpointError: It is missing, or holds something else.
        """
        values = read_json(path)
        if not isinstance(values, dict):
            message = f"{path}: expected a JSON object, found {type(values).__name__}: download the checkpoint again"
            raise CheckpointError(message)
        return cls(path, values)

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Document":
        """The same with these values for fields that are absent or null."""
        stated = {field: value for field, value in self.values.items() if value is not None}
        return Document(self.path, {**self.values, **defaults, **stated})

    def get(self, field: str, kind: type[T]) -> T | None:
        """Read a field that may be absent or null, which are both None.

        Raises:
            CheckpointError: It holds a value of another type, or a number that is not finite.
        """
        value = self.values.get(field)
        if value is not None and not _is_a(value, kind):
            expected = f"{kind.__name__}{' and finite' if kind is float else ''}"
            message = f"{self.path}: {field}={shown(value)} should be of type {expected}: correct the file"
            raise CheckpointError(message)
        # JSON writes 1.0 as 1.
        if kind is float and value is not None:
            value = float(value)
        return cast("T | None", value)

    def require(self, field: str, kind: type[T]) -> T:
        """Read a field that must be there.

        Raises:
            CheckpointError: It is missing, null or of another type.
        """
        value = self.get(field, kind)
        if value is None:
            message = f"{self.path}: {field} is missing: take the file from the original checkpoint"
            raise CheckpointError(message)
        return value

    def require_size(self, field: str, most: int = MAX_SIZE) -> int:
        """Read a field that must be there and says how many there are of something, or how wide it is.

        Args:
            field: Its name.
            most: What is beyond all bounds.

        Raises:
            CheckpointError: It is missing, null, of another type, less than 1 or beyond all bounds.
        """
        size = self.require(field, int)
        if not 1 <= size <= most:
            message = (
                f"{self.path}: {field}={size} should be between 1 and {most}: "
                "take the file from the original checkpoint"
            )
            raise CheckpointError(message)
        return size


def _is_a(value: object, kind: type) -> bool:
    # Python counts true as an int, which no field here means.
    if isinstance(value, bool):
        return kind is bool
    if kind is float and isinstance(value, (int, float)):
        # Python reads NaN and Infinity, which JSON does not know; and an int may be too large for a float.
        return abs(value) <= sys.float_info.max
    return isinstance(value, kind)


def shown(value: object) -> str:
    """A value of a file for a message: as `repr` has it, but for what is long or deep."""
    words = reprlib.Repr()
    words.maxlevel, words.maxdict, words.maxlist, words.maxstring, words.maxother, words.maxlong = 4, 8, 8, 200, 200, 60
    return words.repr(value)


def read_json(path: Path) -> Any:
    """Read any JSON file.

    Raises:
        CheckpointError: It is missing, no regular file, not JSON, nested too deep to be read, or holds what is no text.
    """
    try:
        # A device or a pipe could be read for ever.
        if path.exists() and not path.is_file():
            message = f"{path} is no regular file: download the checkpoint again"
            raise CheckpointError(message)
        text = path.read_bytes().decode("utf-8-sig")
        values = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            # Half of a surrogate pair is no text that anybody could print, publish or tokenise.
            json.dumps(values, ensure_ascii=False).encode()
    except FileNotFoundError:
        message = f"{path} is missing: download the whole checkpoint"
        raise CheckpointError(message) from None
    except (ValueError, RecursionError) as error:
        message = f"{path} is not JSON that can be read ({error}): download the checkpoint again"
        raise CheckpointError(message) from error
    return values
