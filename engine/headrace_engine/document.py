"""A JSON file of a checkpoint, read strictly.

It knows files, fields and types. It does not know what any field means.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headrace_engine.errors import CheckpointError

T = TypeVar("T")


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

    def get(self, field: str, kind: type[T]) -> T | None:
        """Read a field that may be absent or null, which are both None.

        Raises:
            CheckpointError: It holds a value of another type.
        """
        value = self.values.get(field)
        # JSON writes 1.0 as 1; and Python counts true as an int, which no field here means.
        if kind is float and type(value) is int:
            value = float(value)
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        message = f"{self.path}: {field}={value!r} should be of type {kind.__name__}: correct the file"
        raise CheckpointError(message)

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


def read_json(path: Path) -> Any:
    """Read any JSON file.

    Raises:
        CheckpointError: It is missing or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        message = f"{path} is missing: download the whole checkpoint"
        raise CheckpointError(message) from None
    except ValueError as error:
        message = f"{path} is not JSON ({error}): download the checkpoint again"
        raise CheckpointError(message) from error
