"""A short query while another caller asks for very much at once, in the online class.

It knows the large request. What is judged is known in behind.py.
"""

from online import behind
from online.finding import Finding
from online.ground import Ground
from online.plan import Loop, Plan, When

TOKENS = 25_000
_LENGTH = 250
_TIMEOUT_S = 60.0


async def measure(ground: Ground) -> Finding:
    """Run the part."""
    texts = ground.texts.of([_LENGTH] * (TOKENS // _LENGTH), 4)
    heavy = Plan(
        url="",
        texts=[texts, texts[::-1]],
        loop=Loop(callers=1),
        when=When(begin_s=0, seconds=0),
        timeout_s=_TIMEOUT_S,
    )
    seen = await behind.measure(ground, heavy, "large")
    what = f"a query of ten tokens, alone and beside online requests of {TOKENS:,} tokens, one after the other"
    return behind.finding("large", what, seen)
