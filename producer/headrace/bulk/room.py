"""Whether the broker has room for what a bulk job must keep in it: what never fits would be waited for in vain.

Knows the limits of NATS streams. Does not know how full they are: that passes.
"""

from typing import Any

from headrace_contracts import topology
from headrace_contracts.api import api
from headrace_contracts.messages import numpy_dtype, row_elements
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.bulk.card import Card
from headrace.bulk.patience import patiently
from headrace.errors import InputError, JobFailed

# Of a stored message beyond its body: subject, headers and what the server adds.
_MOST_OVERHEAD = 512


async def check_results(nats: NatsClient, card: Card, window_rows: int) -> None:
    """See that the results of a window fit: they are kept until all of them are there, and in the sink.

    Raises:
        InputError: they do not.
        ConnectionFailed: the connection is closed.
        AccessDenied: this user may not ask.
    """
    size = window_rows * row_elements(card.dtype, card.dim) * numpy_dtype(card.dtype).itemsize
    most = await patiently(nats, lambda: _max_bytes(nats, topology.RESULTS_STREAM))
    if most is not None and size > most:
        fit = max(1, window_rows * most // (2 * size))
        raise InputError(
            f"a window of {window_rows:,} rows has results of {size:,} bytes, and {topology.RESULTS_STREAM} keeps "
            f"{most:,}: begin with --window-rows {fit}, or give it more max_bytes"
        )


async def check_chunk(nats: NatsClient, subject: str, size: int) -> None:
    """See that a chunk fits into its queue once that is empty; where the broker does not say, it may.

    Args:
        nats: the connection.
        subject: of the chunk.
        size: of its body, in bytes.

    Raises:
        JobFailed: it never will.
    """
    try:
        names = await api(nats, "STREAM.NAMES", {"subject": subject})
        for name in (names or {}).get("streams") or []:
            most = await _max_bytes(nats, name)
            if most is not None and size > most - _MOST_OVERHEAD:
                raise JobFailed(
                    f"the queue {name} holds {most:,} bytes, and a chunk has {size:,}: give it more max_bytes, or "
                    "workers a smaller --max-chunk-tokens"
                )
    except (NatsError, TimeoutError):
        return


async def _max_bytes(nats: NatsClient, stream: str) -> int | None:
    """What a NATS stream may hold; None where there is no limit, or no such stream."""
    info: dict[str, Any] | None = await api(nats, f"STREAM.INFO.{stream}")
    most = -1 if info is None else int(info["config"]["max_bytes"])
    return most if most > 0 else None
