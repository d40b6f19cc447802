"""Where a NATS stream or consumer differs from what is wanted, and which of that can be changed where it stands.

Pure. Knows settings as the JetStream API spells them. Does not know who compares: a worker that starts (provision.py),
or an operator (upkeep.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Settings that decide whether work is lost, doubled or refused. The others are an operator's to tune.
_MUST_AGREE = frozenset(
    {"subjects", "retention", "storage", "discard", "ack_policy", "priority_groups", "priority_policy", "max_msg_size"}
)
# What nats-server changes nowhere, or only in ways that may lose what is stored.
_FIXED = frozenset(
    {
        "subjects",
        "retention",
        "storage",
        "discard",
        "placement",
        "allow_rollup_hdrs",
        "deny_delete",
        "ack_policy",
        "priority_groups",
        "priority_policy",
        "mem_storage",
        "max_waiting",
    }
)
_ANEW = "it cannot be changed where it stands: delete it once it is empty, and provision again"
_DELETES = "it would delete what is stored: let it empty first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One that differs.

    Attributes:
        name: as the JetStream API spells it.
        found: its value in the broker; None for one that the API leaves out.
        wanted: what it should be.
        obstacle: why it is not changed in place; empty where it can be.
    """

    name: str
    found: object
    wanted: object
    obstacle: str = ""

    @property
    def must_agree(self) -> bool:
        """Whether correctness hangs on it."""
        return self.name in _MUST_AGREE


def differing(
    wanted: Mapping[str, object], found: Mapping[str, object], *, has_messages: bool = True
) -> tuple[Setting, ...]:
    """All settings of `wanted` that `found` has otherwise.

    Args:
        wanted: a configuration; what it does not name may be anything.
        found: the one in the broker.
        has_messages: whether anything is stored there.
    """
    return tuple(
        Setting(name=name, found=found.get(name), wanted=value, obstacle=_obstacle(name, value, found, has_messages))
        for name, value in wanted.items()
        if not _agrees(name, found.get(name), value)
    )


def _agrees(name: str, found: object, wanted: object) -> bool:
    if name == "max_msg_size" and isinstance(found, int) and isinstance(wanted, int) and wanted > 0:
        return found < 0 or found >= wanted  # roomier is as good, and -1 is no limit
    # The API leaves out what is zero, empty or false.
    return (found or None) == (wanted or None)


def _obstacle(name: str, wanted: object, found: Mapping[str, object], has_messages: bool) -> str:
    if name in _FIXED:
        return _ANEW
    # A NATS stream that discards new messages keeps what it has, whatever it may hold.
    deletes = {"max_age", "max_msgs_per_subject"} | ({"max_bytes"} if found.get("discard") == "old" else set())
    if has_messages and name in deletes and _limit(wanted) < _limit(found.get(name)):
        return _DELETES
    return ""


def _limit(value: object) -> float:
    return value if isinstance(value, int) and value > 0 else float("inf")
