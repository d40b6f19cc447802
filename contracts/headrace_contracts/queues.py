"""Which of a shard's online queues a tenant's work goes to: two of them, by its name.

So a tenant whose burst fills its own leaves others room in theirs, as in shuffle sharding; two tenants seldom have both
in common. Which ones is part of the wire contract, so that all clients of a tenant agree. Pure.
"""

from zlib import crc32

# More would let a burst of one tenant fill more of what others use.
_MOST = 2


def hand_size(queues: int) -> int:
    """How many queues a tenant has among so many."""
    return min(_MOST, queues)


def hand(tenant: str | None, queues: int) -> tuple[int, ...]:
    """The queues of a tenant among so many, the one to try first in front; None is a tenant like any other."""
    number = crc32((tenant or "").encode())
    first = number % queues
    if queues == 1:
        return (first,)
    return first, (first + 1 + number // queues % (queues - 1)) % queues
