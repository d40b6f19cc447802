"""Two tenants: one asks for several times what the fleet can do, the other for little.

It knows both loads. By their names the two have one of a shard's online queues in common, as most tenants have: the
modest one has another to turn to, which the burst does not fill.
"""

from collections.abc import Sequence
from dataclasses import replace

from online import capacity
from online.call import Call, took_ms
from online.finding import Figure, Finding, Verdict, p99_ms
from online.ground import Ground, run
from online.plan import Loop, Plan, Ran, When
from online.tally import Tally

TIMES = 4
MODEST, BURST = "modest", "burst"
_RATE = 20.0
_SUCCESS = 0.99
_DEADLINE_SHARE = 0.25  # of its deadline: what the p99 of the modest tenant may be


async def measure(ground: Ground) -> Finding:
    """Run the part."""
    with ground.fleet() as fleet:
        await fleet.warm_up(ground.short()[0][0])
        passages = ground.passages()
        ground.say("fairness: what the fleet can do")
        can = await capacity.measure(ground, fleet, passages)
        modest = Plan(
            url=fleet.url,
            texts=ground.queries(),
            loop=Loop(rate=_RATE, seed=7),
            when=ground.soon(ground.amount.phase_s),
            timeout_s=ground.deadline_s,
            tenant=MODEST,
        )
        ground.say("fairness: the modest tenant alone")
        (alone,) = await run(modest)
        rate = TIMES * can.calls_per_s
        ground.say(f"fairness: beside one that asks for {TIMES} × what the fleet can do")
        first_s = ground.amount.build_up_s
        when = ground.soon(ground.amount.phase_s, after_s=first_s)
        burst = Plan(
            url=fleet.url,
            texts=passages,
            loop=Loop(rate=rate, seed=8),
            when=When(begin_s=when.begin_s - first_s, seconds=when.seconds + first_s),
            timeout_s=ground.deadline_s,
            tenant=BURST,
            stands_for_many=True,
        )
        beside, pressed = await run(replace(modest, when=when), burst)
    return finding(alone, beside, pressed, ground.deadline_s)


def finding(alone: Ran, beside: Ran, burst: Ran, deadline_s: float) -> Finding:
    """What it comes to.

    Args:
        alone: The modest tenant, with the fleet to itself.
        beside: The modest tenant, beside the other.
        burst: The other.
        deadline_s: Of all calls.
    """
    tally, other = Tally.of(beside.calls, beside.offered), Tally.of(burst.calls, burst.offered)
    return Finding(
        part="fairness",
        what=f"a tenant of {_RATE:g} queries/s, alone and beside one that offers {TIMES} × capacity in passages",
        figures=[
            Figure(what="modest alone, answered", value=Tally.of(alone.calls, alone.offered).success),
            *Figure.spread("modest alone", took_ms(alone.calls, "answered")),
            *Figure.spread("modest beside the other", _accepted(beside.calls)),
            Figure(what="the other, answered", value=other.success),
            *Figure.spread("the other", _accepted(burst.calls)),
        ],
        verdicts=[
            Verdict(what="modest beside the other, answered", found=tally.success, limit=_SUCCESS, sense="at least"),
            Verdict(
                what="p99 of modest beside the other",
                found=p99_ms(_accepted(beside.calls)),
                limit=deadline_s * 1000 * _DEADLINE_SHARE,
                sense="at most",
                unit="ms",
            ),
            Verdict(
                what="calls without an account", found=tally.unaccounted + other.unaccounted, limit=0, sense="at most"
            ),
        ],
        notes=[*beside.errors, *burst.errors],
    )


def _accepted(calls: Sequence[Call]) -> list[float]:
    return took_ms(calls, "answered", "expired")
