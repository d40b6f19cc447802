"""All targets, by name.

It knows where each is made. Importing it imports what the targets read with, and so does not import torch.
"""

from collections.abc import Collection

from fuzz import answers, bodies, checkpoints, deliveries, frames, letters, messages, records, texts
from fuzz.target import GROUPS, Target


def targets() -> dict[str, Target]:
    """All."""
    found = [
        *messages.targets(),
        *(frames.target(), deliveries.target(), letters.target()),
        *answers.targets(),
        *records.targets(),
        *texts.targets(),
        checkpoints.target(),
        bodies.target(),
    ]
    return {each.name: each for each in found}


def chosen(names: Collection[str]) -> list[Target]:
    """Those of these names or groups.

    Raises:
        ValueError: One is neither.
    """
    everything = targets()
    for name in names:
        if name not in everything and name not in GROUPS:
            raise ValueError(f"{name!r} is none of {', '.join((*GROUPS, *everything))}")
    return [each for each in everything.values() if each.name in names or each.group in names]
