"""A short query while someone re-indexes, in the batch class, and always has more to do than the fleet.

It knows the batch load. What is judged is known in behind.py.
"""

from online import behind
from online.finding import Finding
from online.ground import Ground
from online.plan import Loop, Plan, When

_TEXTS, _CALLERS = 32, 6  # of a call, and such calls: more tokens than a worker takes in hand
_TIMEOUT_S = 60.0


async def measure(ground: Ground) -> Finding:
    """Run the part."""
    seen = await behind.measure(ground, batch(ground, _TEXTS, _CALLERS), "mix")
    what = f"a query of ten tokens, alone and beside {_CALLERS} batch calls of {_TEXTS} passages that never end"
    return behind.finding("mix", what, seen)


def batch(ground: Ground, texts: int, callers: int) -> Plan:
    """A backlog that is kept up.

    Args:
        ground: Of the part.
        texts: Passages of a call.
        callers: With one call at a time each.
    """
    return Plan(
        url="",
        texts=ground.passages(texts),
        loop=Loop(callers=callers),
        when=When(begin_s=0, seconds=0),
        priority="batch",
        timeout_s=_TIMEOUT_S,
    )
