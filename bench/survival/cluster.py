"""One nats-server or a cluster of three, in the best way that this machine has: namespaces, containers or processes.

It knows how they are put together and when they are ready. It does not know what is done to them.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from bulk.disk import Disk, disk

from survival.links import Links
from survival.node import Node
from survival.place import HERE, NotPermitted, Place, places
from survival.process_node import ProcessNode
from survival.settings import Ends

Kind: TypeAlias = Literal["namespaces", "containers", "processes"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Count: TypeAlias = Literal[1, 3]
"""Of servers."""
COUNTS: tuple[Count, ...] = get_args(Count)

NAMES = ("left", "middle", "right")
_CLIENT, _MONITOR, _ROUTE = 4222, 8222, 6222
# To each other server: nats-server's own pool of three, and one for the system account.
_ROUTES = 4
_LOOK_EVERY_S = 0.05
_LAST_WORDS = 2000


class NotReady(Exception):
    """The servers did not find each other in time; the text has their last words."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Servers that have been started.

    Attributes:
        kind: How they run.
        nodes: They, by name.
        places: For others than servers, by name.
        links: Between all places and servers; None where they have no network of their own.
        disks: With the stores of the servers, by name, where they were asked for.
    """

    kind: Kind
    nodes: Mapping[str, Node]
    places: Mapping[str, Place]
    links: Links | None
    disks: Mapping[str, Disk]

    @property
    def url(self) -> str:
        """Of all servers; who connects takes one by chance, and who knows one learns of the others."""
        return ",".join(node.url for node in self.nodes.values())

    async def ready(self, seconds: float = 30) -> None:
        """Wait until a leader knows all servers that run, with JetStream, and can place NATS streams on them.

        Raises:
            NotReady: That took longer.
        """
        running = [node for node in self.nodes.values() if node.is_running]
        is_ready = _is_alone_ready if len(self.nodes) == 1 else _is_ready
        try:
            async with asyncio.timeout(seconds):
                while not await asyncio.to_thread(is_ready, running):  # noqa: ASYNC110 - servers tell nobody
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            logs = "\n".join(f"--- {node.name}\n{node.log[-_LAST_WORDS:]}" for node in self.nodes.values())
            raise NotReady(f"the servers were not ready within {seconds:g} s:\n{logs}") from None


@contextmanager
def cluster(
    work: Path,
    *,
    size: Count = 3,
    kind: Kind | None = None,
    extra_places: Sequence[str] = (),
    disk_mb: int | None = None,
    users: str = "",
    say: Callable[[str], None] = print,
) -> Iterator[Cluster]:
    """Run servers while the context lasts; they are not ready when it is entered.

    Args:
        work: Folder for what they write, each in one of its name.
        size: How many: the first is called left, the others middle and right.
        kind: How they run; None is namespaces where they are permitted, and else processes.
        extra_places: Names of places for others; where there are no namespaces they are all here.
        disk_mb: Megabytes of a disk for the store of each, which can be full; None leaves them where they are.
        users: Who is let in by them; see settings.py.
        say: Told how they run where None was asked for, and why.

    Raises:
        NotPermitted: This machine does not run that kind.
        LocalFailed: There is no nats-server.
    """
    names = NAMES[:size]
    with ExitStack() as stack:
        kind, all_ = _ground(stack, (*names, *extra_places), kind, say)
        nodes: dict[str, Node] = {}
        disks = {} if disk_mb is None else _disks(stack, work, nodes, names, disk_mb)
        stores = {name: each.folder for name, each in disks.items()}
        links = None
        if kind == "containers":
            from survival.containers import containers  # noqa: PLC0415 - slow, and only who asks for them needs Docker

            found, links = stack.enter_context(containers(work, names, stores, users))
            nodes |= found
        else:
            nodes |= _nodes(work, {name: all_[name] for name in names}, stores, users)
            links = Links(all_) if kind == "namespaces" else None
        for node in nodes.values():
            stack.callback(node.kill)
            node.start()
        yield Cluster(kind, nodes, {name: all_[name] for name in extra_places}, links, disks)


def _ground(
    stack: ExitStack, names: Sequence[str], kind: Kind | None, say: Callable[[str], None]
) -> tuple[Kind, Mapping[str, Place]]:
    """Places for all, and of which kind."""
    if kind is None or kind == "namespaces":
        try:
            all_ = stack.enter_context(places(names))
            Links(all_).mend()  # or it is not permitted to break them, either
        except NotPermitted as error:
            if kind is not None:
                raise
            say(f"nats-server runs on loopback, where no link can break: {error}")
        else:
            if kind is None:
                say("nats-server runs in network namespaces, between which links can break")
            return "namespaces", all_
    return kind or "processes", {name: Place(name) for name in names}


def _disks(
    stack: ExitStack, work: Path, nodes: Mapping[str, Node], names: Sequence[str], megabytes: int
) -> dict[str, Disk]:
    """Of nodes that are yet to come."""
    made: dict[str, Disk] = {}
    for name in names:
        (work / name).mkdir(parents=True)
        pids = partial(_pids, nodes, name)
        made[name] = stack.enter_context(disk(work / name, megabytes, pids, name="store"))
    return made


def _pids(nodes: Mapping[str, Node], name: str) -> list[int]:
    node = nodes[name]
    return [node.pid] if node.is_running else []


def _nodes(work: Path, at: Mapping[str, Place], stores: Mapping[str, Path], users: str) -> dict[str, ProcessNode]:
    ends = _ends(at)
    # A server leaves out the route to itself.
    routes = [each.route for each in ends.values()] if len(at) > 1 else []
    return {
        name: ProcessNode(name, place, ends[name], work / name, routes=routes, store=stores.get(name), users=users)
        for name, place in at.items()
    }


def _ends(at: Mapping[str, Place]) -> dict[str, Ends]:
    """Where servers listen: at the usual ports, or at free ones where they have none of their own."""
    free = iter(_free_ports(3 * len(at)))
    made = {}
    for name, place in at.items():
        is_here = place.namespace is None
        ports = (next(free), next(free), next(free)) if is_here else (_CLIENT, _MONITOR, _ROUTE)
        made[name] = Ends(*(f"{place.address}:{port}" for port in ports))
    return made


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HERE, 0))
        return [each.getsockname()[1] for each in sockets]


def _is_alone_ready(running: Sequence[Node]) -> bool:
    try:
        return all(node.ask("/healthz")["status"] == "ok" for node in running)
    except (OSError, KeyError):
        return False


def _is_ready(running: Sequence[Node]) -> bool:
    names = {node.name for node in running}
    try:
        for node in running:
            routes = Counter(route["remote_name"] for route in node.ask("/routez")["routes"])
            # Until a server has all its routes to another, some of what it answers to clients there is lost.
            if node.ask("/healthz")["status"] != "ok" or any(routes[each] < _ROUTES for each in names - {node.name}):
                return False
        for node in running:
            meta = node.ask("/jsz")["meta_cluster"]
            if meta.get("leader") == node.name:
                there = {peer["name"] for peer in meta["replicas"] if peer["current"] and not peer.get("offline")}
                return names <= there | {node.name}
    except (OSError, KeyError):
        pass
    return False
