"""How subcommands write numbers where room is short.

Pure. Does not know what is counted.
"""

import math

_SIZES = ("", "k", "M", "G", "T", "P")
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def short(number: float) -> str:
    """A count in at most four characters and a letter: 999, 12.4k, 3.1M."""
    return _scaled(number, 1000, "")


def size(num_bytes: float) -> str:
    """Bytes in at most five characters and a unit: 512 B, 12.4 KiB, 3.1 GiB."""
    return _scaled(num_bytes, 1024, " ", "iB")


def duration(seconds: float) -> str:
    """A time in one unit: 0.4 s, 12 s, 3 min, 5 h, 2 d; ∞ for one without an end."""
    if math.isinf(seconds):
        return "∞"
    for length, unit in _SPANS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"


def _scaled(number: float, base: int, gap: str, unit: str = "") -> str:
    for name in _SIZES:
        if number < base or name == _SIZES[-1]:
            break
        number /= base
    digits = f"{number:.1f}" if name and number < 100 else f"{number:.0f}"
    return f"{digits}{gap}{name.replace('k', 'K') if unit else name}{(unit if name else 'B') if unit else ''}"
