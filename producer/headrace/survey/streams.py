"""The NATS streams of a fleet: what each holds, may hold, and on how many servers it stands.

Knows STREAM.LIST of the JetStream API, which answers a page at a time. Does not know what is in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace_contracts import topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient


@dataclass(frozen=True, slots=True)
class Replicas:
    """The copies of a NATS stream, by what they are worth.

    Attributes:
        current: have all of it; the leader is one.
        behind: live, and have not all of it yet.
        offline: on servers that are not there.
    """

    current: int = 0
    behind: int = 0
    offline: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One NATS stream.

    Attributes:
        name: of it.
        num_messages: in it.
        num_bytes: in it, as the broker counts them.
        max_bytes: that it may hold; None without a limit.
        oldest_s: age of its oldest message in seconds; 0 where it is empty.
        last_seq: number of the last message that was ever stored.
        created: when it was made, as the broker writes it.
        replicas: its copies.
    """

    name: str
    num_messages: int
    num_bytes: int
    max_bytes: int | None
    oldest_s: float
    last_seq: int
    created: str
    replicas: Replicas


@dataclass(frozen=True, slots=True)
class Listing:
    """The NATS streams of a fleet.

    Attributes:
        streams: by name, in its order.
        silent: names of those whose servers do not answer.
    """

    streams: Mapping[str, Stream]
    silent: tuple[str, ...] = ()


async def listing(nats: NatsClient) -> Listing:
    """Read those of ours, page by page.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    found: dict[str, Stream] = {}
    silent: list[str] = []
    offset, total = 0, 1
    while offset < total:
        page = await api(nats, "STREAM.LIST", {"offset": offset}) or {}
        for each in page.get("streams") or ():
            if topology.is_ours(each["config"]["name"]):
                stream = _stream(each)
                found[stream.name] = stream
        silent += filter(topology.is_ours, page.get("missing") or ())
        total = int(page.get("total", 0))
        offset += max(1, int(page.get("limit", 0)))
    return Listing(dict(sorted(found.items())), tuple(sorted(silent)))


def _stream(info: Mapping[str, Any]) -> Stream:
    config, state = info["config"], info["state"]
    # Both by the broker's clock: this machine's may be another.
    age = datetime.fromisoformat(info["ts"]) - datetime.fromisoformat(state["first_ts"])
    return Stream(
        name=config["name"],
        num_messages=state["messages"],
        num_bytes=state["bytes"],
        max_bytes=config["max_bytes"] if config["max_bytes"] >= 0 else None,
        oldest_s=max(0.0, age.total_seconds()) if state["messages"] else 0.0,
        last_seq=state["last_seq"],
        created=info["created"],
        replicas=_replicas(info.get("cluster") or {}),
    )


def _replicas(cluster: Mapping[str, Any]) -> Replicas:
    others = cluster.get("replicas") or ()
    offline = sum(bool(each.get("offline")) for each in others)
    current = sum(bool(each.get("current")) and not each.get("offline") for each in others)
    has_leader = bool(cluster.get("leader", "alone"))
    # Without a leader nobody has been found to have all of it.
    return Replicas(current + has_leader, len(others) - current - offline, offline)
