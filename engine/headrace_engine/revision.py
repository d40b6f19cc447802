"""The name of a checkpoint's content: two directories with one revision compute the same vectors.

It knows bytes. Where the checkpoint came from, its paths and its dates do not count.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path


def revision(root: Path, files: Sequence[Path]) -> str:
    """Hash files into one revision.

    It is the SHA-256 of a `sha256sum` listing, so anyone can check it, from inside `root`:

        sha256sum config.json modules.json 1_Pooling/config.json model.safetensors | sha256sum

    Args:
        root: The checkpoint's directory.
        files: Files in it, in the order of the listing.

    Returns:
        64 hexadecimal digits.
    """
    listing = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        listing.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return listing.hexdigest()
