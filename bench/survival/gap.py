"""How long nobody is answered when a server is lost, in each way that one can be, or a worker.

It knows the ways, and what of the histories lies after which loss. What runs is fleet.py's.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Literal, TypeAlias

from online.finding import Figure, Finding, Verdict

from survival.callers import Caller, stop_all
from survival.checker import gaps
from survival.cluster import cluster
from survival.fleet import Fleet, Size, fleet
from survival.history import RESULT, Asked, Ended, History, read
from survival.wish import Queries

# While something is away, and after it is back, calls go on: each of them ends while others are asked.
_READY_S, _WARM_S, _LOST_S, _CALM_S = 60.0, 2.0, 6.0, 4.0
_LOOK_EVERY_S = 0.1
_LIMIT_S = 1.0
_SHARDS = 2
# A clock's tick, by which event loops wake up early.
_EARLY_S = 0.1
# Without a job: what is looked at is online work alone, which the fleet has time for though a worker is away. A caller
# for each server; one that asks every 50 ms sees no gap where there is none.
SIZE = Size(
    workers=3,
    callers=3,
    calls_per_s=20,
    producers=0,
    rows=0,
    rows_per_s=None,
    shards=_SHARDS,
    queries=Queries(timeout_s=5),
)

Kind: TypeAlias = Literal["server", "worker"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that was lost for a while.

    Attributes:
        of: What sort of thing.
        what: Which, and how.
        began_s: By the machine's monotonic clock.
        ended_s: When it came back.
    """

    of: Kind
    what: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class _Way:
    """How something is lost, and how it comes back."""

    of: Kind
    what: str
    lose: Callable[[], object]
    back: Callable[[], object]


async def measure(model: str, work: Path, say: Callable[[str], None]) -> Finding:
    """Lose each server in each way, and each worker, one after the other.

    Args:
        model: As the engine takes it; only its checkpoint is read.
        work: An empty folder for what is written.
        say: Told of each loss.
    """
    with (
        cluster(work / "nodes", extra_places=SIZE.places, say=say) as servers,
        fleet(servers, model, SIZE, 0, work) as made,
    ):
        await servers.ready(_READY_S)
        await asyncio.to_thread(made.crew.start_all)
        losses = [await _lose(made, way, say) for way in _ways(made)]
        await asyncio.to_thread(stop_all, made.callers)
    return finding(losses, [read(life.history) for caller in made.callers for life in caller.lives])


def _ways(made: Fleet) -> Iterator[_Way]:
    servers, crew, links = made.cluster, made.crew, made.cluster.links
    for name, node in servers.nodes.items():
        yield _Way("server", f"{name} killed", node.kill, node.start)
        yield _Way("server", f"{name} frozen", node.freeze, node.thaw)
        if links is not None:
            yield _Way("server", f"{name} cut off", partial(links.isolate, name), links.mend)
    for number in range(SIZE.workers):
        name, place = f"worker {number}", f"worker-{number}"
        yield _Way("worker", f"{name} killed", partial(crew.kill, number), partial(crew.start, number))
        freeze, thaw = (partial(crew.signal, number, each) for each in (signal.SIGSTOP, signal.SIGCONT))
        yield _Way("worker", f"{name} frozen", freeze, thaw)
        if links is not None:
            yield _Way("worker", f"{name} cut off", partial(links.isolate, place), links.mend)


async def _lose(made: Fleet, way: _Way, say: Callable[[str], None]) -> Loss:
    await asyncio.to_thread(_begin_anew, made.callers)
    await made.cluster.ready(_READY_S)
    await _answered(made.callers)
    await asyncio.sleep(_WARM_S)
    say(way.what)
    began_s = monotonic()
    await asyncio.to_thread(way.lose)
    await asyncio.sleep(_LOST_S)
    ended_s = monotonic()
    await asyncio.to_thread(way.back)
    await asyncio.sleep(_CALM_S)
    return Loss(way.of, way.what, began_s, ended_s)


def _begin_anew(callers: Sequence[Caller]) -> None:
    """Let each begin at its own server again, which it left when that was lost."""
    stop_all(callers)
    for caller in callers:
        caller.start()


async def _answered(callers: Sequence[Caller]) -> None:
    """Wait until each has begun: a process takes its time to start."""
    files = [caller.lives[-1].history for caller in callers]
    async with asyncio.timeout(_READY_S):
        while not all(file.exists() and read(file).ended for file in files):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(_LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class _Call:
    """One that has ended."""

    asked: Asked
    ended: Ended

    @property
    def took_s(self) -> float:
        return self.ended.at_s - self.asked.at_s

    @property
    def is_early(self) -> bool:
        """Whether there was time left for more."""
        return self.took_s < self.asked.timeout_s - _EARLY_S

    def has_part_in(self, loss: Loss) -> bool:
        return self.asked.at_s < loss.ended_s and self.ended.at_s > loss.began_s


def finding(losses: Sequence[Loss], histories: Sequence[History]) -> Finding:
    """What it comes to."""
    calls = [_Call(asked, ended) for each in histories for asked, ended in _pairs(each)]
    failed = [call for call in calls if call.ended.end != RESULT]
    early = [call for call in failed if call.is_early]
    late = [call for call in failed if not call.is_early]
    figures, all_, one = [], [0.0], [0.0]
    for loss in losses:
        gap_s, of_one_s = _longest(histories, loss), max(_longest([each], loss) for each in histories)
        back = Loss(loss.of, f"{loss.what}, then back", loss.ended_s, loss.ended_s + _CALM_S)
        figures += [
            Figure(what=f"{loss.what}: gap of all callers", value=gap_s, unit="s"),
            Figure(what=f"{loss.what}: gap of the caller that it hit most", value=of_one_s, unit="s"),
            *(
                Figure(
                    what=f"{each.what}: slowest call",
                    value=max((call.took_s for call in calls if call.has_part_in(each)), default=0.0),
                    unit="s",
                )
                for each in (loss, back)
            ),
        ]
        if loss.of == "server":
            all_.append(gap_s)
            one.append(of_one_s)
    return Finding(
        part="gap",
        what=f"{SIZE.callers} callers, {SIZE.workers} workers, {_SHARDS} shards, three servers: each lost in each way",
        figures=[Figure(what="calls", value=len(calls), unit="calls"), *figures],
        verdicts=[
            _at_most("longest gap of all callers at the loss of a server", max(all_), _LIMIT_S, "s"),
            _at_most("longest gap of one caller at the loss of a server", max(one), _LIMIT_S, "s"),
            _at_most("calls that failed with time left", len(early)),
            _at_most("calls that were not answered in all of their time", len(late)),
        ],
        notes=[f"{each.asked.call}: {each.ended.end}: {each.ended.text}" for each in failed[:10]],
    )


def _at_most(what: str, found: float, limit: float = 0, unit: str = "") -> Verdict:
    return Verdict(what=what, found=found, limit=limit, sense="at most", unit=unit)


def _pairs(history: History) -> Iterator[tuple[Asked, Ended]]:
    asked = {each.call: each for each in history.asked}
    return ((asked[each.call], each) for each in history.ended)


def _longest(histories: Sequence[History], loss: Loss) -> float:
    """Seconds of the longest gap that a loss has a part in."""
    found = [gap.seconds for gap in gaps(histories) if gap.began_s < loss.ended_s and gap.ended_s > loss.began_s]
    return max(found, default=0.0)
