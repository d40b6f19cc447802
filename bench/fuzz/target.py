"""One thing that reads hostile input, and the law that it must keep.

Pure. It knows neither what is read, nor where inputs come from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Literal, TypeAlias, get_args

Group: TypeAlias = Literal["decode", "text", "checkpoint", "gateway"]
GROUPS: tuple[Group, ...] = get_args(Group)


class Verdict(Enum):
    """What became of an input that was read as it should be."""

    TAKEN = "taken"  # it was what it should be
    REFUSED = "refused"  # by the error that is documented for it


class Wrong(Exception):
    """Raised when an input was read and what came of it breaks a law; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is fuzzed.

    Attributes:
        name: Of a file's name.
        group: What is asked for together.
        seeds: Makes inputs to begin with, good and bad.
        run: Reads one input. Whatever it raises is a failure, by whichever code it was raised.
        mutate: Makes another input of one.
        max_bytes: Of an input.
        timeout_s: After which an input counts as one that hangs.
        packages: Whose Python code coverage is measured of.
        close: Ends what `run` has started.
    """

    name: str
    group: Group
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes], Verdict]
    mutate: Callable[[bytes, Random], bytes]
    max_bytes: int = 4096
    timeout_s: float = 10
    packages: tuple[str, ...] = field(default=("headrace_contracts", "headrace", "headrace_workers"))
    close: Callable[[], None] = lambda: None
