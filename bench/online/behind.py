"""A short query beside something heavy: how long it takes while the fleet is idle, and how long while it is not.

It knows the two phases, and the law that is judged: nobody who comes waits for more than the step that runs. mix.py and
large.py know what is heavy.
"""

from dataclasses import dataclass, replace

from online.call import Call, ended, took_ms
from online.finding import Figure, Finding, Verdict, p50_ms, p90_ms, p99_ms
from online.ground import Ground, run
from online.plan import Loop, Plan, When
from online.tally import Tally

_RATE = 20.0
_MORE_MS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen.

    Attributes:
        idle: Queries with the fleet to themselves.
        beside: Queries beside the heavy load.
        heavy: Calls of the heavy load.
        when: That came.
    """

    idle: list[Call]
    beside: list[Call]
    heavy: list[Call]
    when: When


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
        query = Plan(url=fleet.url, texts=short, loop=Loop(rate=_RATE), when=When(begin_s=0, seconds=0))
        ground.say(f"{say}: the query alone")
        (idle,) = await run(replace(query, when=ground.soon(ground.amount.phase_s)))
        ground.say(f"{say}: the query beside it")
        first_s = ground.amount.build_up_s
        when = ground.soon(ground.amount.phase_s, after_s=first_s)
        wider = When(begin_s=when.begin_s - first_s, seconds=when.seconds + first_s)
        beside, loaded = await run(replace(query, when=when), replace(heavy, url=fleet.url, when=wider))
        return Seen(
            idle=list(idle.calls),
            beside=list(beside.calls),
            heavy=list(loaded.calls),
            when=wider,
        )


def finding(part: str, what: str, seen: Seen) -> Finding:
    """What it comes to.

    Args:
        part: Its name.
        what: Was done.
        seen: What was seen.
    """
    # A call says how long its longest step took: with several steps to a call, that is a full one. They differ by what
    # their texts are, and the p99 of the query is made by the longer ones.
    step_ms = p90_ms([call.run_ms for call in seen.heavy if call.kind == "answered"])
    own_ms = [call.run_ms for call in seen.beside if call.kind == "answered"]
    idle_ms = p99_ms(took_ms(seen.idle, "answered"))
    tally, done = Tally.of(seen.beside), Tally.of(ended(seen.heavy, seen.when.begin_s, seen.when.end_s))
    return Finding(
        part=part,
        what=what,
        figures=[
            *Figure.spread("query alone", took_ms(seen.idle, "answered")),
            *Figure.spread("query beside it", took_ms(seen.beside, "answered")),
            Figure(what="a full step, p90", value=step_ms, unit="ms"),
            Figure(what="step that the query ran in, p50", value=p50_ms(own_ms), unit="ms"),
            Figure(what="heavy load, answered", value=done.tokens / seen.when.seconds, unit="tokens/s"),
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
