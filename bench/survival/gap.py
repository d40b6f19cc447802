"""How long nobody is answered when a server is lost, in each way that one can be, or a worker.

It knows the ways, and what of the histories lies after which loss. What runs is fleet.py's.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

from online.finding import Figure, Finding, Verdict

from survival.callers import stop_all
from survival.checker import gaps
from survival.cluster import cluster
from survival.fleet import Fleet, Size, fleet
from survival.history import RESULT, History, read

_READY_S, _CALM_S, _LOST_S = 60.0, 8.0, 6.0
_LIMIT_S = 1.0
_SHARDS = 2
# Without a job: what is looked at is online work alone. More callers than servers, so that each has some.
SIZE = Size(workers=3, callers=6, calls_per_s=8, producers=0, rows=0, shards=_SHARDS)


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that was lost for a while.

    Attributes:
        what: In words.
        began_s: By the machine's monotonic clock.
        ended_s: When it came back.
    """

    what: str
    began_s: float
    ended_s: float


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
        for caller in made.callers:
            await asyncio.to_thread(caller.start)
        await asyncio.sleep(_CALM_S)
        losses = [await _lose(made, *each, say) for each in _ways(made)]
        await asyncio.to_thread(stop_all, made.callers)
    return finding(losses, [read(caller.lives[0].history) for caller in made.callers])


def _ways(made: Fleet) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """What is lost, how, and how it comes back."""
    servers, links = made.cluster, made.cluster.links
    for name, node in servers.nodes.items():
        yield f"{name} killed", node.kill, node.start
        yield f"{name} frozen", node.freeze, node.thaw
        if links is not None:
            yield f"{name} cut off", partial(links.isolate, name), links.mend
    for number in range(SIZE.workers):
        yield f"worker {number} killed", partial(made.crew.kill, number), partial(made.crew.start, number)


async def _lose(
    made: Fleet, what: str, lose: Callable[[], object], back: Callable[[], object], say: Callable[[str], None]
) -> Loss:
    say(what)
    began_s = monotonic()
    await asyncio.to_thread(lose)
    await asyncio.sleep(_LOST_S)
    ended_s = monotonic()
    await asyncio.to_thread(back)
    await made.cluster.ready(_READY_S)
    await asyncio.sleep(_CALM_S)
    return Loss(what, began_s, ended_s)


def finding(losses: Sequence[Loss], histories: Sequence[History]) -> Finding:
    """What it comes to."""
    histories = [_online(history) for history in histories]
    figures, worst = [], {"of all callers": 0.0, "of one caller": 0.0}
    for loss in losses:
        all_, one = _longest(histories, loss), max(_longest([each], loss) for each in histories)
        figures += [
            Figure(what=f"{loss.what}: gap of all callers", value=all_, unit="s"),
            Figure(what=f"{loss.what}: gap of the caller that it hit most", value=one, unit="s"),
        ]
        if "worker" not in loss.what:
            worst = {
                "of all callers": max(all_, worst["of all callers"]),
                "of one caller": max(one, worst["of one caller"]),
            }
    asked = {asked.call: asked for each in histories for asked in each.asked}
    early = [
        end
        for each in histories
        for end in each.ended
        if end.end not in {RESULT, "cancelled"} and end.at_s - asked[end.call].at_s < asked[end.call].timeout_s - 0.1
    ]
    return Finding(
        part="gap",
        what=f"{SIZE.callers} callers, {SIZE.workers} workers, {_SHARDS} shards, three servers: each lost in each way",
        figures=figures,
        verdicts=[
            *(
                Verdict(
                    what=f"longest gap {whose} at the loss of a server",
                    found=value,
                    limit=_LIMIT_S,
                    sense="at most",
                    unit="s",
                )
                for whose, value in worst.items()
            ),
            Verdict(what="calls that failed with time left", found=len(early), limit=0, sense="at most"),
        ],
        notes=[f"{end.call}: {end.end}: {end.text}" for end in early[:10]],
    )


def _online(history: History) -> History:
    """Without batch calls, which wait while servers choose a leader."""
    asked = [each for each in history.asked if each.priority == "online"]
    names = {each.call for each in asked}
    return replace(history, asked=asked, ended=[each for each in history.ended if each.call in names])


def _longest(histories: Sequence[History], loss: Loss) -> float:
    """Seconds of the longest gap that a loss has a part in."""
    found = [gap.seconds for gap in gaps(histories) if gap.began_s < loss.ended_s and gap.ended_s > loss.began_s]
    return max(found, default=0.0)
