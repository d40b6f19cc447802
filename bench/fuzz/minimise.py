"""A corpus worth keeping: few small inputs that reach all that many large ones did.

It knows what Python's own tracer tells of lines. It does not know libFuzzer: what that kept is read from a folder.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz import corpus
from fuzz.target import Target

_MOST_BYTES, _MOST_INPUTS = 2000, 24
_OURS = ("headrace_contracts", "headrace_workers", "/headrace/")


def minimise(target: Target, folder: Path) -> int:
    """Keep of a folder and of what is kept already what adds a line, the smallest first; how many that is."""
    found = [path.read_bytes() for path in folder.iterdir()] if folder.is_dir() else []
    seeds = set(target.seeds())
    reached: set[tuple[str, int]] = set().union(*(lines(target, each) for each in seeds))
    chosen: list[bytes] = []
    for data in _small(set(found + corpus.kept(corpus.CORPUS, target.name)) - seeds):
        new = lines(target, data) - reached
        if new:
            reached |= new
            chosen.append(data)
    # Beside what adds a line, some that libFuzzer took for new by what was compared.
    rest = [data for data in _small(set(found) - seeds) if data not in chosen]
    chosen += rest[:: max(1, len(rest) // _MOST_INPUTS)]
    return corpus.replace(corpus.CORPUS, target.name, chosen[:_MOST_INPUTS])


def _small(inputs: Iterable[bytes]) -> list[bytes]:
    return sorted((each for each in inputs if len(each) <= _MOST_BYTES), key=lambda each: (len(each), each))


def lines(target: Target, data: bytes) -> set[tuple[str, int]]:
    """The lines of ours that reading an input runs."""
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _OURS):
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        target.run(data)
    except Exception:  # noqa: BLE001, S110 - what it breaks is told by whoever fuzzes
        pass
    finally:
        sys.settrace(None)
    return reached
