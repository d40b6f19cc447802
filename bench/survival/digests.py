"""A few letters for each vector, so that a history holds what a caller was given without holding it.

It knows bytes, and what a text's must be. It knows no fleet.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from bulk.oracle import Oracle  # brings torch with it, which a caller has no use for

_BYTES = 8


def digest(row: NDArray[Any]) -> str:
    """Of one vector, bit by bit."""
    return blake2b(row.tobytes(), digest_size=_BYTES).hexdigest()


def expected(oracle: "Oracle", texts: Sequence[str]) -> list[str]:
    """Of the vector that each text must have; raises what the oracle raises."""
    return [digest(row) for row in oracle.vectors(texts)]
