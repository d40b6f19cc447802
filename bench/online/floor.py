"""Both classes with more to do than the fleet can: what each of them gets.

It knows the share that batch is promised however busy online is, and that online must go on.
"""

from dataclasses import replace

from online import mix
from online.call import Call, ended, took_ms
from online.finding import Figure, Finding, Verdict
from online.ground import Ground, run
from online.plan import Loop, Plan, When
from online.tally import Tally

FLOOR = 0.1  # what a worker has by default (headrace worker --batch-floor)
_TOLERANCE = 0.8  # of the floor: a few calls more or less at the ends of the measurement
_ONLINE = 0.5
_ONLINE_CALLERS = 64  # with a passage each: more than two steps
_BATCH_TEXTS, _BATCH_CALLERS = 4, 48  # small calls, so that few of them lie across an end


async def measure(ground: Ground) -> Finding:
    """Run the part."""
    with ground.fleet() as fleet:
        await fleet.warm_up(ground.short()[0][0])
        ground.say("floor: both classes with more than the fleet can do")
        first_s = ground.amount.build_up_s
        when = ground.soon(first_s + ground.amount.phase_s)
        online = Plan(url=fleet.url, texts=ground.passages(), loop=Loop(callers=_ONLINE_CALLERS), when=when)
        batch = replace(mix.batch(ground, _BATCH_TEXTS, _BATCH_CALLERS), url=fleet.url, when=when)
        of_online, of_batch = await run(online, batch)
    return finding(
        list(of_online.calls),
        list(of_batch.calls),
        When(begin_s=when.begin_s + first_s, seconds=when.seconds - first_s),
    )


def finding(online: list[Call], batch: list[Call], when: When) -> Finding:
    """What it comes to.

    Args:
        online: Calls of the online class.
        batch: Calls of the batch class.
        when: Both had been there for a while.
    """
    tokens = {
        name: Tally.of(ended(calls, when.begin_s, when.end_s)).tokens / when.seconds
        for name, calls in (("online", online), ("batch", batch))
    }
    together = sum(tokens.values())
    share = {name: of / together if together else 0.0 for name, of in tokens.items()}
    return Finding(
        part="floor",
        what=f"{_ONLINE_CALLERS} online callers of a passage each, and a batch backlog",
        figures=[
            *(Figure(what=name, value=of, unit="tokens/s") for name, of in tokens.items()),
            *Figure.spread("online", took_ms(online, "answered")),
        ],
        verdicts=[
            Verdict(what="share of batch", found=share["batch"], limit=FLOOR * _TOLERANCE, sense="at least"),
            Verdict(what="share of online", found=share["online"], limit=_ONLINE, sense="at least"),
            Verdict(what="calls that failed", found=Tally.of([*online, *batch]).failed, limit=0, sense="at most"),
        ],
    )
