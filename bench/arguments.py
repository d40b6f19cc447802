"""What the flags of several benches are read by.

Pure, but for the folder that it makes. It knows no bench.
"""

import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path


def count(text: str) -> int:
    """A whole number of at least one, for argparse.

    Raises:
        ValueError: It is none.
    """
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def work_folder(keep: Path | None) -> AbstractContextManager[str]:
    """The folder for what a run writes, while the context lasts.

    Args:
        keep: One that stays, made if need be; None takes a temporary one.
    """
    if keep is None:
        return tempfile.TemporaryDirectory(prefix="headrace-bench-")
    keep.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(keep))
