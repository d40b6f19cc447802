"""All targets, by name.

It knows which file makes which. What one reads with is imported for it alone: all of Headrace takes long to be
imported, and longer where coverage is watched.
"""

from collections.abc import Collection
from importlib import import_module

from fuzz.target import GROUPS, Target

_FILES: dict[str, tuple[str, ...]] = {
    "messages": ("chunk", "reply", "cancel", "presence", "spec", "request", "status"),
    "frames": ("frame",),
    "deliveries": ("delivery",),
    "letters": ("letter",),
    "answers": ("puback", "api", "stats"),
    "records": ("job", "shard", "card"),
    "texts": ("text", "pair"),
    "tokenizer_files": ("tokenizer",),
    "checkpoints": ("checkpoint",),
    "bodies": ("gateway",),
}


def target(name: str) -> Target:
    """The one of this name.

    Raises:
        ValueError: There is none.
    """
    for file, names in _FILES.items():
        if name in names:
            made: list[Target] = import_module(f"fuzz.{file}").targets()
            return next(each for each in made if each.name == name)
    raise ValueError(f"{name!r} is none of {', '.join(_names())}")


def targets() -> dict[str, Target]:
    """All."""
    return {name: target(name) for name in _names()}


def chosen(names: Collection[str]) -> list[Target]:
    """Those of these names or groups.

    Raises:
        ValueError: One is neither.
    """
    for name in names:
        if name not in (*GROUPS, *_names()):
            raise ValueError(f"{name!r} is none of {', '.join((*GROUPS, *_names()))}")
    return [each for each in targets().values() if each.name in names or each.group in names]


def _names() -> list[str]:
    return [name for names in _FILES.values() for name in names]
