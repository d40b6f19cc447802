"""How each kind of fault is done to a fleet, and how it is mended.

It knows what is done. When and how long is faults.py's, and what goes on beside what breaking.py's.
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from bulk.crew import Crew
from economics.processes import ProcessFailed

from survival import store
from survival.ailment import Ailment, inflict
from survival.cluster import Cluster
from survival.faults import Fault, place_of
from survival.fleet import Fleet
from survival.node import Node, has_given_up

Doing: TypeAlias = Callable[[], Awaitable[object]]

_LOSS_PERCENT, _SLOW_KBIT = 8, 400
_SPOILT_STEPS = 3
# More than any call has.
_JUMP_S = 45.0
_ALL_NODES = "nodes"
_AGAIN_S = 0.2
_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Breakage:
    """One fault, ready to be done.

    Attributes:
        of: What it is done to: faults of the same thing go one after another. One of a node also has `nodes`, unless
            it may go on beside that of another node.
        do: Does it.
        mend: Ends it; also where it was done in part only.
    """

    of: frozenset[str]
    do: Doing
    mend: Doing


def breakage(fault: Fault, fleet: Fleet) -> Breakage:
    """How a fault is done to a fleet.

    Raises:
        ValueError: This fleet has nothing that such a fault could be done to.
    """
    whose, what, *_ = fault.kind.split()
    of = _of_clock if what == "clock" else _OF[whose]
    return of(fault, fleet)


async def bring_back(crew: Crew, number: int) -> None:
    """Start a worker that is away, or has ended by itself, again and again: servers may be away, too."""
    while True:
        with suppress(ProcessFailed):
            await asyncio.to_thread(crew.restart, number)
            return
        await asyncio.sleep(_AGAIN_S)


async def revive(node: Node) -> None:
    """Start a server anew that takes nothing more since its disk was full, as whoever watches its health does."""
    if node.is_running and await asyncio.to_thread(has_given_up, node):
        await asyncio.to_thread(node.stop)
        await asyncio.to_thread(node.start)


async def _well(cluster: Cluster) -> None:
    """Wait until all servers are ready; for who has all of them at his mercy, so that nobody else revives any."""
    waiting = asyncio.create_task(cluster.ready(_READY_S))
    while not waiting.done():
        await asyncio.wait([waiting], timeout=_AGAIN_S)
        for node in cluster.nodes.values():
            await revive(node)
    await waiting


def _of_node(fault: Fault, fleet: Fleet) -> Breakage:
    cluster = fleet.cluster
    nodes = list(cluster.nodes.values())
    node = nodes[fault.which % len(nodes)]
    every = frozenset(cluster.nodes)
    chance = random.Random(f"{fleet.seed} {fault.at_s}")  # noqa: S311 - it is to be the same each time

    async def back() -> None:
        """Until it has from the others what it lost, no other may fail: nothing is promised for two at a time."""
        await asyncio.to_thread(node.start)
        await _well(cluster)

    match fault.kind:
        case "node killed":
            return Breakage(frozenset({node.name}), _calling(node.kill), _calling(node.start))
        case "node restarted":
            return Breakage(frozenset({node.name}), _calling(node.stop), _calling(node.start))
        case "node frozen":
            return Breakage(frozenset({node.name}), _calling(node.freeze), _calling(node.thaw))
        case "node disk full":
            disk = cluster.disks[node.name]
            return Breakage(frozenset({node.name}), _calling(disk.fill), _calling(disk.free))
        case "all nodes killed":
            return Breakage(every, _calling(*(each.kill for each in nodes)), _calling(*(each.start for each in nodes)))
        case _:
            damage = store.lose if fault.kind == "node store lost" else lambda of: store.truncate(of, chance)
            return Breakage(
                every | {"links"}, _after(partial(_well, cluster), node.kill, lambda: damage(node.store)), back
            )


def _of_links(fault: Fault, fleet: Fleet) -> Breakage:
    links = fleet.cluster.links
    if links is None:
        raise ValueError(f"there are no links to break: leave {fault.kind!r} out of the plan")
    names = list(fleet.cluster.nodes)
    one, other = names[fault.which % len(names)], names[(fault.which + 1) % len(names)]
    any_ = links.names[fault.which % len(links.names)]

    def isolate_its_place() -> None:
        links.isolate(place_of(fault, links.names))

    do: dict[str, Callable[[], None]] = {
        "link of a node cut": lambda: links.isolate(one),
        "link of a worker cut": isolate_its_place,
        "link of a caller cut": isolate_its_place,
        "link of a producer cut": isolate_its_place,
        "link lossy": lambda: links.lossy(any_, _LOSS_PERCENT),
        "link slow": lambda: links.slow(any_, _SLOW_KBIT),
        "route cut": lambda: links.cut(one, other),
        "route cut one way": lambda: links.cut_one_way(one, other),
    }
    # One at a time, since mending mends all.
    return Breakage(frozenset({"links"}), _calling(do[fault.kind]), _calling(links.mend))


def _of_worker(fault: Fault, fleet: Fleet) -> Breakage:
    crew, number = fleet.crew, fault.which % len(fleet.ailments)
    of = frozenset({f"worker-{number}"})

    match fault.kind:
        case "worker killed":
            return Breakage(of, _calling(lambda: crew.kill(number)), partial(bring_back, crew, number))
        case "worker drained":
            return Breakage(of, _calling(lambda: crew.stop(number)), partial(bring_back, crew, number))
        case _:
            return Breakage(
                of,
                _calling(lambda: crew.signal(number, signal.SIGSTOP)),
                _calling(lambda: crew.signal(number, signal.SIGCONT)),
            )


def _of_clock(fault: Fault, fleet: Fleet) -> Breakage:
    whose = fault.kind.partition(" ")[0]
    names = [name for name in fleet.clocks if name.startswith(whose)]
    if not names:
        raise ValueError(f"there are no clocks to set: leave {fault.kind!r} out of the plan")
    name = names[fault.which % len(names)]
    clock = fleet.clocks[name]
    ahead_s = _JUMP_S if fault.which % 2 else -_JUMP_S
    return Breakage(frozenset({f"{name} clock"}), _calling(lambda: clock.set(ahead_s)), _calling(lambda: clock.set(0)))


def _of_device(fault: Fault, fleet: Fleet) -> Breakage:
    number = fault.which % len(fleet.ailments)
    kinds = {
        "device lost": Ailment(kind="lost", steps=_SPOILT_STEPS),
        "device hangs": Ailment(kind="hangs", seconds=fault.lasts_s),
        "device gives NaN": Ailment(kind="not a number", steps=_SPOILT_STEPS),
        "device fails once": Ailment(kind="fails", steps=1),
    }
    file = fleet.ailments[number]
    return Breakage(
        frozenset({f"device-{number}"}),
        _calling(lambda: inflict(file, kinds[fault.kind])),
        _calling(lambda: inflict(file, Ailment())),
    )


def _of_client(fault: Fault, fleet: Fleet) -> Breakage:
    if fault.kind.startswith("caller"):
        caller = fleet.callers[fault.which % len(fleet.callers)]
        of = frozenset({caller.place.name})
        if fault.kind == "caller killed":
            return Breakage(of, _calling(caller.kill), _calling(caller.start))
        return Breakage(
            of, _calling(lambda: caller.signal(signal.SIGSTOP)), _calling(lambda: caller.signal(signal.SIGCONT))
        )
    number = fault.which % len(fleet.producers)
    producer = fleet.producers[number]
    of = frozenset({f"producer-{number}"})
    if fault.kind == "producer killed":  # and started again by whoever runs it
        return Breakage(of, _calling(lambda: producer.signal(signal.SIGKILL)), _calling())
    # Whichever process it is by then: the one that was there when this was planned may be gone, and is another one now.
    return Breakage(
        of, _calling(lambda: producer.signal(signal.SIGSTOP)), _calling(lambda: producer.signal(signal.SIGCONT))
    )


def _of_credentials(fault: Fault, fleet: Fleet) -> Breakage:
    if fleet.passes is None:
        raise ValueError(f"nobody has credentials: leave {fault.kind!r} out of the plan")
    end = fleet.passes.end_of(fault)

    async def ended() -> None:
        """Servers end them by themselves."""
        await asyncio.sleep(max(0.0, end.at_s - time.time()))

    renew = fleet.passes.by_name[end.place].renew
    return Breakage(frozenset({f"{end.place} credentials"}), ended, _calling(renew))


def _of_sink(fault: Fault, fleet: Fleet) -> Breakage:  # noqa: ARG001 - there is one way
    return Breakage(frozenset({"sink"}), _calling(fleet.sink.fill), _calling(fleet.sink.free))


_OF: Mapping[str, Callable[[Fault, Fleet], Breakage]] = {
    "node": _of_node,
    "all": _of_node,
    "link": _of_links,
    "route": _of_links,
    "worker": _of_worker,
    "device": _of_device,
    "producer": _of_client,
    "caller": _of_client,
    "sink": _of_sink,
    "credentials": _of_credentials,
}


def _calling(*functions: Callable[[], object]) -> Doing:
    """Call them one after the other, off the event loop."""

    async def do() -> None:
        for function in functions:
            await asyncio.to_thread(function)

    return do


def _after(ready: Doing, *functions: Callable[[], object]) -> Doing:
    async def do() -> None:
        await ready()
        await _calling(*functions)()

    return do
