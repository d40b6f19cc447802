"""What an engine is to suffer from, as a small file says that may be written while the engine runs.

It knows the file. Engines that suffer are in ailing_engine.py.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["well", "fails", "lost", "hangs", "not a number"]
"""What a step does that has it:

fails: it raises, though the device runs other work: such as a kernel that cannot take this one batch.
lost: it raises, whatever it runs, a step of one token as well, and for good: as a device that has left its bus.
hangs: it stands still for a while, or until the file says something new, and then runs.
not a number: it gives rows of NaN.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """What ails an engine.

    Attributes:
        kind: Of it.
        steps: That have it, from the next one on; then the engine is well, unless it is `lost`. Steps that try out
            whether the device runs at all do not count, and only `lost` and `hangs` befall them.
        seconds: That each of them hangs, at most.
    """

    kind: Kind = "well"
    steps: int = 1
    seconds: float = 0


def inflict(file: Path, ailment: Ailment) -> None:
    """Write the file as a whole, and as another one than before: the same ailment once more is a new one."""
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as new:
        new.write(msgspec.json.encode(ailment))
    Path(new.name).replace(file)


class Chart:
    """A file of ailments, looked at now and then."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None

    def news(self) -> Ailment | None:
        """What it says, if that is new; None while it is not there.

        Raises:
            msgspec.MsgspecError: It says something else.
        """
        try:
            with self._file.open("rb") as file:
                # The number of the file as well: clocks of file systems are coarse.
                found = os.fstat(file.fileno())
                now = found.st_mtime_ns, found.st_ino
                if now == self._seen:
                    return None
                self._seen = now
                return msgspec.json.decode(file.read(), type=Ailment)
        except FileNotFoundError:
            return None
