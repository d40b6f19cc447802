"""The golden vectors of the wire contract, as inputs to begin with.

It knows where they lie. It does not know what is in them.
"""

import json
from functools import cache
from pathlib import Path

_VECTORS = Path(__file__).parents[2] / "contracts" / "vectors"


@cache
def vectors(kind: str) -> tuple[bytes, ...]:
    """Those of a kind of message, valid and invalid."""
    found = (json.loads(path.read_text("utf-8")) for path in sorted(_VECTORS.glob("*.json")))
    return tuple(bytes.fromhex(each["hex"]) for each in found if each["kind"] == kind)


def vector(name: str) -> bytes:
    """The one of this name."""
    return bytes.fromhex(json.loads((_VECTORS / f"{name}.json").read_text("utf-8"))["hex"])
