"""Histories made by hand: good ones, for a test to plant a fault in."""

from typing import Any

from survival.history import RESULT, Asked, Ended, History

# Of the vectors of three texts.
DIGESTS = ("d0", "d1", "d2")


def asked(call: str = "a-1", at_s: float = 10.0, **changes: Any) -> Asked:
    """Texts 0 and 2, within a second."""
    return Asked(**{"call": call, "at_s": at_s, "texts": (0, 2), "timeout_s": 1.0, **changes})


def ended(call: str = "a-1", at_s: float = 10.5, end: str = RESULT, **changes: Any) -> Ended:
    """Both vectors, or whatever else."""
    digests = ("d0", "d2") if end == RESULT else ()
    return Ended(**{"call": call, "at_s": at_s, "end": end, "digests": digests, **changes})


def history(*records: Asked | Ended, caller: str = "a", stopped_s: float | None = 99.0) -> History:
    """Of one caller."""
    return History(
        caller=caller,
        asked=[each for each in records if isinstance(each, Asked)],
        ended=[each for each in records if isinstance(each, Ended)],
        stopped_s=stopped_s,
    )
