"""The whole path: a client in this process, a nats-server and a worker in processes of their own, all on this machine.

It knows how to start the path and the order in which it is measured. It does not know how a call is timed.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from bulk import Bulk
from calls import Calls
from headrace import Client, local
from headrace.tokens import TextTokenizer
from headrace_engine import Checkpoint
from timing import repeat
from workloads import QUERIES, documents

_CONCURRENCIES = (1, 16)
# A 99th percentile wants hundreds of calls.
_CALLS_SECONDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePath:
    """What the path did.

    Attributes:
        event_loop: Of the client; the worker takes the same.
        calls: Short texts, one a call, one row a concurrency.
        bulk: Many texts in one call.
    """

    event_loop: str
    calls: tuple[Calls, ...]
    bulk: Bulk

    @classmethod
    async def measure(cls, url: str, checkpoint: Checkpoint, load: "Load") -> "WholePath":
        """Measure through a running path.

        Args:
            url: Of the nats-server.
            checkpoint: Of the model that its worker serves.
            load: How much of what.
        """
        tokenise_ms = _tokenise_ms(checkpoint, load.seconds)
        async with await Client.connect(url) as client:
            calls = [
                await Calls.measure(client, QUERIES, concurrency, load.seconds * _CALLS_SECONDS, tokenise_ms)
                for concurrency in _CONCURRENCIES
            ]
            bulk = await Bulk.measure(client, documents(load.texts), load.engine_tokens_per_s)
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        return cls(event_loop=loop, calls=tuple(calls), bulk=bulk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much to put on the path.

    Attributes:
        seconds: For a case; calls get six times as long.
        texts: Of the bulk call.
        engine_tokens_per_s: What the engine alone does on the mixed shape.
    """

    seconds: float
    texts: int
    engine_tokens_per_s: float


@contextmanager
def started(model: str, *options: str) -> Iterator[str]:
    """A nats-server and a worker while the context lasts; gives the server's URL.

    Args:
        model: As `headrace worker` takes it.
        options: More flags of `headrace worker`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary,
        local.server() as server,
        local.worker(model, server.url, *options, log=Path(temporary) / "worker.log"),
    ):
        yield server.url


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop where it is installed, as the worker does; None is asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - not made for Windows
    except ImportError:
        return None
    return uvloop.new_event_loop


def _tokenise_ms(checkpoint: Checkpoint, seconds: float) -> float:
    tokenizer = TextTokenizer(checkpoint.tokenizer_json.decode(), checkpoint.max_length)
    turn = cycle(QUERIES)
    return repeat(lambda: tokenizer.tokenize([next(turn)]), seconds / 4).p50_ms
