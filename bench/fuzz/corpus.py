"""Inputs that are kept: a corpus for each target, and what was once found.

It knows folders of small files, each named for its content. It does not know what any of them is an input of.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
CORPUS, FOUND = HERE / "corpus", HERE / "found"


def kept(root: Path, target: str) -> list[bytes]:
    """What is kept for a target, in the order of its names."""
    folder = root / target
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def keep(root: Path, target: str, data: bytes) -> Path:
    """Keep an input, once."""
    folder = root / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def replace(root: Path, target: str, inputs: Iterable[bytes]) -> int:
    """Keep these and no others; how many they are."""
    folder = root / target
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
    return len({keep(root, target, each) for each in inputs})
