"""A calibration as a JSON document, and back.

Knows the layout, and refuses what does not keep to it. Does not know files.
"""

import json
from dataclasses import asdict
from typing import Literal, get_type_hints

import msgspec

from headrace_workers.calibration.calibration import Calibration

SCHEMA = 1

# The fields of a calibration beside the schema, all of which must be there: a document is read by the one who wrote it.
_Document = msgspec.defstruct(
    "_Document",
    [("schema", Literal[1]), *get_type_hints(Calibration).items()],
    forbid_unknown_fields=True,
    kw_only=True,
)


def encode(calibration: Calibration) -> str:
    """Write it for a file, and for people."""
    return json.dumps({"schema": SCHEMA, **asdict(calibration)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def decode(text: str) -> Calibration:
    """Read what `encode` wrote.

    Raises:
        ValueError: It is no JSON, of another schema, or not laid out so; the text says where.
        RecursionError: It is nested deeper than any that was written.
    """
    fields = msgspec.structs.asdict(msgspec.json.decode(text, type=_Document))
    del fields["schema"]
    return Calibration(**fields)
