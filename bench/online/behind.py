"""A short query beside something heavy: how long it takes while the fleet is idle, and how long while it is not.

It knows the two phases, and the law that is judged: nobody who comes waits for more than the step that runs. mix.py and
large.py know what is heavy.
"""

from dataclasses import dataclass, replace

from online.call import Call, begun, took_ms
from online.finding import Figure, Finding, Verdict, p50_ms, p99_ms
from online.ground import Ground, run
from online.plan import Loop, Plan, When
from online.tally import Tally

_RATE = 20.0
_MORE_MS = 5.0
_FIRST_S = 1.0  # in which the heavy load builds up before the query's caller comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen.

    Attributes:
        idle: Queries with the fleet to themselves.
        beside: Queries beside the heavy load.
        heavy: Calls of the heavy load that were made meanwhile.
        seconds: Of the second phase.
    """

    idle: list[Call]
    beside: list[Call]
    heavy: list[Call]
    seconds: float


async def measure(ground: Ground, heavy: Plan, say: str) -> Seen:
    """Run both phases.

    Args:
        ground: Of the part.
        heavy: The load; when it comes is set here.
        say: What is told.
    """
    with ground.fleet() as fleet:
        short = ground.short()
        await fleet.warm_up(short[0][0])
        query = Plan(url=fleet.url, texts=short, loop=Loop(rate=_RATE), when=When(begin_s=0, seconds=0), tenant="query")
        ground.say(f"{say}: the query alone")
        (idle,) = await run(replace(query, when=ground.soon(ground.amount.phase_s)))
        ground.say(f"{say}: the query beside it")
        when = ground.soon(ground.amount.phase_s, after_s=_FIRST_S)
        wider = When(begin_s=when.begin_s - _FIRST_S, seconds=when.seconds + _FIRST_S)
        beside, loaded = await run(replace(query, when=when), replace(heavy, url=fleet.url, when=wider))
        return Seen(
            idle=list(idle.calls),
            beside=list(beside.calls),
            heavy=begun(loaded.calls, wider.begin_s, wider.end_s),
            seconds=wider.seconds,
        )


def finding(part: str, what: str, seen: Seen) -> Finding:
    """What it comes to.

    Args:
        part: Its name.
        what: Was done.
        seen: What was seen.
    """
    # A call says which of its steps took longest: with several steps to a call, that is a full one.
    step_ms = p50_ms([call.run_ms for call in seen.heavy if call.kind == "answered"])
    idle_ms = p99_ms(took_ms(seen.idle, "answered"))
    tally = Tally.of(seen.beside)
    return Finding(
        part=part,
        what=what,
        figures=[
            *Figure.spread("query alone", took_ms(seen.idle, "answered")),
            *Figure.spread("query beside it", took_ms(seen.beside, "answered")),
            Figure(what="a full step", value=step_ms, unit="ms"),
            Figure(what="heavy load, answered", value=Tally.of(seen.heavy).tokens / seen.seconds, unit="tokens/s"),
        ],
        verdicts=[
            Verdict(
                what=f"p99 of the query (alone + a step + {_MORE_MS:g} ms)",
                found=p99_ms(took_ms(seen.beside, "answered")),
                limit=idle_ms + step_ms + _MORE_MS,
                sense="at most",
                unit="ms",
            ),
            Verdict(what="queries answered", found=tally.success, limit=1, sense="at least"),
        ],
    )
