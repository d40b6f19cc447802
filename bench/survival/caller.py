"""`python -m survival.caller`: a process whose calls go by a plan, and which keeps what it asked and what it got.

It knows the client and when to call it; what for is wish.py's. It does not know what is broken meanwhile. It asks until
its time is over or SIGTERM comes, and ends when all that it asked has ended.
"""

import asyncio
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic

import numpy as np
from economics import processes
from headrace import Client, Embeddings, HeadraceError, Hedging, ItemsFailed, RequestFailed, errors
from headrace_contracts.credentials import Credentials
from headrace_workers import event_loop

from survival.digests import digest
from survival.history import CANCELLED, NEVER, RESULT, Asked, Ended, Writer, written
from survival.wish import LONGEST_S, Queries, Wish

# What a call may take beyond its timeout before nobody believes in its end any more; twice, since whoever was frozen
# finds all of his timers due at once.
_BOUND_S = 5.0
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a caller is asked.

    Attributes:
        name: Its own: names of calls begin with it.
        url: Of nats-servers, with commas between.
        model: Served name.
        history: File to write, which is not there yet.
        texts: To choose from.
        seed: Of all that is random.
        rate: Calls a second in the mean, whatever becomes of those before.
        seconds: For which it asks; None asks until SIGTERM.
        hedged: Whether late queries are asked a second time.
        longest_s: The most patient calls have so much time.
        queries: What all calls are; None is calls of all kinds, at random moments.
        access: File of its user; None needs none.
    """

    name: str
    url: str
    model: str
    history: str
    texts: Sequence[str]
    seed: int = 0
    rate: float = 10.0
    seconds: float | None = None
    hedged: bool = False
    longest_s: float = LONGEST_S
    queries: Queries | None = None
    access: str | None = None


class Caller:
    """Asks, and writes down."""

    def __init__(self, plan: Plan, client: Client, history: Writer) -> None:
        self._plan = plan
        self._client = client
        self._history = history
        self._numbers = count()

    async def ask(self, stop: asyncio.Event) -> None:
        """Make calls until told to stop, and wait for all of them."""
        plan, chance = self._plan, random.Random(self._plan.seed)  # noqa: S311 - it is to be the same each time
        due_s = begun_s = monotonic()
        async with asyncio.TaskGroup() as tasks:
            while plan.seconds is None or due_s < begun_s + plan.seconds:
                due_s += chance.expovariate(plan.rate) if plan.queries is None else 1 / plan.rate
                wish = self._wish(chance)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, due_s - monotonic())):
                        await stop.wait()
                if stop.is_set():
                    return
                tasks.create_task(self._call(wish))

    def _wish(self, chance: random.Random) -> Wish:
        plan = self._plan
        if plan.queries is None:
            return Wish.out_of(chance, len(plan.texts), plan.longest_s)
        return Wish.query(chance, len(plan.texts), plan.queries)

    async def _call(self, wish: Wish) -> None:
        name = f"{self._plan.name}-{next(self._numbers)}"
        asked = Asked(
            call=name,
            at_s=monotonic(),
            texts=wish.texts,
            timeout_s=wish.timeout_s,
            patience_s=wish.patience_s,
            tenant=wish.tenant,
            priority=wish.priority,
        )
        self._history.write(asked)
        calling = asyncio.ensure_future(self._embed(wish, name))
        if wish.patience_s is not None:
            await asyncio.wait({calling}, timeout=wish.patience_s)
            calling.cancel()
        for bound_s in (wish.timeout_s + _BOUND_S, _BOUND_S):
            if not calling.done():
                await asyncio.wait({calling}, timeout=bound_s)
        self._history.write(_ended(name, calling))
        # What nobody believes in any more is not to keep this process.
        calling.cancel()

    async def _embed(self, wish: Wish, name: str) -> Embeddings:
        texts = [self._plan.texts[index] for index in wish.texts]
        # A text alone is another kind of call than a list of one.
        what = texts[0] if len(texts) == 1 and wish.texts[0] % 2 else texts
        return await self._client.embed(
            what,
            model=self._plan.model,
            priority=wish.priority,
            timeout=wish.timeout_s,
            retries=wish.retries,
            tenant=wish.tenant,
            request_id=name,
        )


def _ended(name: str, calling: "asyncio.Future[Embeddings]") -> Ended:
    """What became of a call, at this moment."""
    at_s = monotonic()
    if not calling.done():
        return Ended(call=name, at_s=at_s, end=NEVER)
    if calling.cancelled():
        return Ended(call=name, at_s=at_s, end=CANCELLED)
    if (error := calling.exception()) is not None:
        return _failed(name, at_s, error)
    vectors = calling.result()
    rows = np.atleast_2d(np.asarray(vectors))
    return Ended(
        call=name,
        at_s=at_s,
        end=RESULT,
        digests=tuple("" if place in vectors.errors else digest(row) for place, row in enumerate(rows)),
        errors={place: f"{item.code}: {item.text}" for place, item in vectors.errors.items()},
    )


def _failed(name: str, at_s: float, error: BaseException) -> Ended:
    kind = type(error)
    items = error.errors if isinstance(error, ItemsFailed) else {}
    return Ended(
        call=name,
        at_s=at_s,
        end=kind.__name__ if kind.__module__ == errors.__name__ else f"{kind.__module__}.{kind.__qualname__}",
        errors={place: f"{item.code}: {item.text}" for place, item in items.items()},
        code=str(error.code) if isinstance(error, RequestFailed) else None,
        text=str(error),
    )


async def run(plan: Plan) -> None:
    """Do what the plan says."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with written(Path(plan.history)) as history:
        client = await _connected(plan, stop)
        if client is not None:
            async with client:
                await Caller(plan, client, history).ask(stop)
        history.stopped()


async def _connected(plan: Plan, stop: asyncio.Event) -> Client | None:
    """A client that has read the model, however long that takes; None if it is to stop meanwhile.

    Not a part of any call: what a program does at its start is another thing than what it is promised afterwards.
    """
    client: Client | None = None
    hedging = Hedging() if plan.hedged else None
    access = None if plan.access is None else Credentials.read(Path(plan.access))
    while not stop.is_set():
        try:
            if client is None:
                client = await Client.connect(plan.url, access=access, hedging=hedging)
            await client.tokenizer(plan.model)
        except HeadraceError:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_S):
                    await stop.wait()
        else:
            return client
    if client is not None:
        await client.close()
    return None


def main() -> None:
    """Do what the standard input asks."""
    plan = processes.plan(Plan)
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(run(plan))


if __name__ == "__main__":
    main()
