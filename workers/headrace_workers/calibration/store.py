"""Where calibrations are kept: a file for each model, device and dtype.

Knows folders and files. A file that is missing, damaged or of another schema is one thing to it: no calibration, with
the reason. Whether one is stale, it does not judge.
"""

import os
import re
import secrets
import tempfile
from pathlib import Path

from headrace_workers.calibration import document
from headrace_workers.calibration.calibration import Absence, Calibration, Key
from headrace_workers.errors import StoreFailed


def folder() -> Path:
    """$HEADRACE_CALIBRATIONS, or headrace/calibrations in the user's cache (XDG Base Directory Specification).

    Raises:
        StoreFailed: The user has no home directory, as in a container whose user is a bare number.
    """
    if named := os.environ.get("HEADRACE_CALIBRATIONS"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # Relative paths are to be ignored, says the specification.
    return (Path(cache) if Path(cache).is_absolute() else _home() / ".cache") / "headrace" / "calibrations"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise StoreFailed(
            "there is no home directory to keep calibrations in: set HEADRACE_CALIBRATIONS to a folder"
        ) from error


def file_of(key: Key) -> Path:
    """Where the calibration for a key is, or would be; raises what `folder` does."""
    device = re.sub(r"[^A-Za-z0-9]+", "-", key.device).strip("-").lower()[:60]
    return folder() / f"{key.fingerprint}-{device}-{key.dtype}.json"


def read(key: Key) -> Calibration | Absence:
    """The calibration for a key, whatever its conditions, or why there is none."""
    try:
        file = file_of(key)
    except StoreFailed as error:
        return Absence(str(error))
    try:
        found = document.decode(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return Absence(f"there is no calibration for this model on {key.device} in {key.dtype}")
    except (OSError, ValueError, RecursionError) as error:
        return Absence(f"{file} cannot be read: {error}")
    if found.key != key:
        # Two devices may have one name once it is made fit for a file.
        return Absence(f"{file} is for {found.key.device}, {found.key.dtype}")
    return found


def check() -> None:
    """See that something can be kept, before time is spent on measuring it.

    Raises:
        StoreFailed: There is no folder, it cannot be made, or not be written to.
    """
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise StoreFailed(
            f"{place} cannot be written to ({error.strerror}): set HEADRACE_CALIBRATIONS to a folder that can, or "
            "give --dry-run"
        ) from error


def write(calibration: Calibration) -> Path:
    """Keep it, in place of the one before; a reader finds one or the other whole.

    Returns:
        The file.

    Raises:
        StoreFailed: It cannot be written.
    """
    file = file_of(calibration.key)
    # Containers that share a volume have the same process ids.
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.write_text(document.encode(calibration), "utf-8")
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise StoreFailed(f"{file} cannot be written: {error.strerror}") from error
    return file
