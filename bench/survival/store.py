"""What becomes of the files of a nats-server's store: cut short, with bits turned over, or gone.

It knows where JetStream keeps messages. It does not know whose they are; the server must be down meanwhile. What is
damaged is the same for the same seed and files.
"""

import random
from pathlib import Path
from shutil import rmtree

# At most, of the end of a file: a few messages.
_CUT = 4096


def blocks(store: Path, stream: str | None = None) -> list[Path]:
    """Files of messages, and of what servers of a cluster agree on, that are not empty, in order.

    Args:
        store: What a server keeps.
        stream: NATS stream whose messages alone are meant.
    """
    pattern = "*.blk" if stream is None else f"streams/{stream}/msgs/*.blk"
    return sorted(file for file in store.rglob(pattern) if file.stat().st_size)


def truncate(store: Path, chance: random.Random, stream: str | None = None) -> Path | None:
    """Cut off the end of one of these files, as a disk does whose last writes were not done.

    Args:
        store: What a server keeps.
        chance: Which file, and how many bytes.
        stream: As `blocks` takes it.

    Returns:
        The file, or None where there was none.
    """
    file = _one(store, chance, stream)
    if file is not None:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.truncate(size - chance.randint(1, min(size, _CUT)))
    return file


def flip(store: Path, chance: random.Random, stream: str | None = None, *, bits: int = 1) -> Path | None:
    """Turn bits over in one of these files.

    Args:
        store: What a server keeps.
        chance: Which file, and which bits.
        stream: As `blocks` takes it.
        bits: How many, at most: one may be turned over again.

    Returns:
        The file, or None where there was none.
    """
    file = _one(store, chance, stream)
    if file is not None:
        with file.open("r+b") as opened:
            size = file.stat().st_size
            for _ in range(bits):
                at = chance.randrange(size)
                opened.seek(at)
                (byte,) = opened.read(1)
                opened.seek(at)
                opened.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return file


def lose(store: Path) -> None:
    """Remove all that a server keeps, as if its disk were a new one."""
    for each in store.iterdir():
        if each.is_dir():
            rmtree(each)
        else:
            each.unlink()


def _one(store: Path, chance: random.Random, stream: str | None) -> Path | None:
    found = blocks(store, stream)
    return chance.choice(found) if found else None
