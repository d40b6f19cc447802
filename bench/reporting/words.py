"""Numbers and lists as people read them.

It knows rounding and units. It knows no result but the names in it.
"""

from collections.abc import Sequence

from result import Case, Entry, Result, Suite

_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def number(value: float) -> str:
    """Three digits that count, no more."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def times(value: float) -> str:
    """A ratio: "1.12×", "12.3×", "0.014×"."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3}f}×"


def spread(low: float, high: float) -> str:
    """Of a ratio over the rounds: "1.09 to 1.15"; empty for a single round."""
    return "" if low == high else f"{times(low)[:-1]} to {times(high)[:-1]}"


def share(part: float) -> str:
    """Of a whole: "72 %"; with a decimal where it is less than 10 %."""
    return f"{part:.1%}".replace("%", " %") if part < 0.0995 else f"{part:.0%}".replace("%", " %")


def divergence(value: float) -> str:
    """Such as "2.1e-2"."""
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def listing(items: Sequence[str]) -> str:
    """Of "a", "b" and "c": "a, b and c"."""
    return " and ".join(part for part in (", ".join(items[:-1]), *items[-1:]) if part)


def cases(names: Sequence[str]) -> str:
    """Of "query", "128 tokens" and "512 tokens": "query, 128 and 512 tokens"."""
    kinds = [name.partition(" ")[2].removesuffix("s") for name in names]
    nexts = [*kinds[1:], ""]
    shared = [bool(kind) and kind == following for kind, following in zip(kinds, nexts, strict=True)]
    return listing([name.partition(" ")[0] if short else name for name, short in zip(names, shared, strict=True)])


def dtype(name: str) -> str:
    """Its short name."""
    return _DTYPES.get(name, name)


def precision(name: str) -> str:
    """What Headrace computes in, of a dtype that it was told."""
    return "float16 in linear layers, float32 in all else" if name == "float16" else name


def unit(suite: Suite) -> str:
    """Of what is compared in it."""
    return "ms" if suite.better == "ms" else "calls/s"


def at_limit(case: Case, suite: Suite) -> float:
    """What is compared in the suite, at the measured matrix rate: ms, or how many a second."""
    return case.limit_ms if suite.better == "ms" else 1000 / case.limit_ms


def labels(result: Result) -> dict[str, str]:
    """What people call the contenders, by name."""
    return {contender.name: contender.label for contender in result.contenders}


def fault(entry: Entry, bound: float) -> str:
    """What is wrong with one that does not count; empty if nothing is."""
    if entry.reason or entry.divergence is None:
        return f"is out: {entry.reason or 'no rows came'}"
    if entry.is_right:
        return ""
    return f"is wrong: divergence {divergence(entry.divergence)}, the bound is {divergence(bound)}"
