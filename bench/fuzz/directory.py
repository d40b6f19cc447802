"""A directory as one JSON document, so that it can be changed, kept and written anew.

It knows files, links, pipes and safetensors (a header of JSON behind its length, then bytes). It does not know what a
checkpoint needs.
"""

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOST_FILES = 40
_MOST_BYTES = 4 << 20


def write(root: Path, files: Mapping[str, Any]) -> int:
    """Write all that can be written below `root`; how many bytes files have.

    Args:
        root: A folder that is there.
        files: By path, what is in each: {"json": …}, {"text": …}, {"hex": …}, {"zeros": bytes}, {"link": target},
            {"fifo": true}, {"folder": true} or {"tensors": header, "size": bytes, "header_size": what it says}. What is
            none of them, or cannot be, is left out.
    """
    size = 0
    for name, entry in list(files.items())[:_MOST_FILES]:
        try:
            size += _write(root, str(name), entry)
        except (OSError, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
            continue
    return size


def _write(root: Path, name: str, entry: Any) -> int:
    path = root / name
    # Nothing of an input leaves its directory, but for what a link points to.
    if not name or ".." in Path(name).parts or Path(name).is_absolute() or not isinstance(entry, dict):
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    if "link" in entry:
        path.symlink_to(str(entry["link"]))
    elif "fifo" in entry:
        os.mkfifo(path)
    elif "folder" in entry:
        path.mkdir()
    else:
        content = _content(entry)[:_MOST_BYTES]
        path.write_bytes(content)
        return len(content)
    return 0


def _content(entry: Mapping[str, Any]) -> bytes:
    if "json" in entry:
        return json.dumps(entry["json"]).encode()
    if "text" in entry:
        return str(entry["text"]).encode("utf-8", "surrogatepass")
    if "hex" in entry:
        return bytes.fromhex(entry["hex"])
    if "zeros" in entry:
        return bytes(_bounded(entry["zeros"]))
    if "tensors" in entry:
        header = json.dumps(entry["tensors"]).encode()
        said = entry.get("header_size")
        length = said if type(said) is int and 0 <= said < 2**64 else len(header)
        return struct.pack("<Q", length) + header + bytes(_bounded(entry.get("size", 0)))
    return b""


def _bounded(size: Any) -> int:
    return max(0, min(int(size), _MOST_BYTES))


def tensors(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Safetensors of zeros."""
    header: dict[str, Any] = {}
    place = 0
    for name, shape in shapes.items():
        size = 4
        for width in shape:
            size *= width
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    return {"tensors": header, "size": place}
