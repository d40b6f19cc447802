"""`python -m online.traffic`: a process of callers that use the client library.

It knows the client, and calls it below its tokenizer where it is asked to be cheap. It does not know what is measured.
"""

import asyncio
from contextlib import AsyncExitStack

from economics import processes
from headrace import Client, DeadlineExceeded, Overloaded
from headrace.options import EmbedOptions
from headrace.published import Model
from headrace.result import CallUsage
from headrace.tokens import Tokenized
from headrace_workers import event_loop

from online.driver import Driver, End
from online.plan import Plan, Ran

_WARM_UP_S = 10.0
_MANY = 1_000_000  # calls on their way: no bound


class Callers:
    """Those of one process."""

    def __init__(self, plan: Plan, clients: list[Client], tokenised: list[Tokenized]) -> None:
        self._plan = plan
        self._clients = clients
        self._tokenised = tokenised
        self._options = EmbedOptions(priority=plan.priority, timeout=plan.timeout_s)

    async def call(self, number: int) -> End:
        """Make one call."""
        client = self._clients[number % len(self._clients)]
        try:
            usage = await (self._from_ids(client, number) if self._tokenised else self._from_texts(client, number))
        except Overloaded:
            return "refused", 0, 0.0
        except DeadlineExceeded:
            return "expired", 0, 0.0
        return "answered", usage.tokens, usage.run_ms

    async def _from_texts(self, client: Client, number: int) -> CallUsage:
        plan = self._plan
        texts = plan.texts[number % len(plan.texts)]
        rows = await client.embed(texts, priority=plan.priority, timeout=plan.timeout_s, strict=True)
        return rows.usage

    async def _from_ids(self, client: Client, number: int) -> CallUsage:
        ids = self._tokenised[number % len(self._tokenised)]

        async def tokenized(_: Model) -> Tokenized:
            return ids

        gathered = await client._calls.run(None, self._options, tokenized)  # noqa: SLF001 - a call without its tokenizer
        if gathered.errors:
            raise RuntimeError(f"the fleet answered with errors: {gathered.errors}")
        return gathered.usage


async def run(plan: Plan) -> Ran:
    """Connect, make ready, and do what the plan says."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(await Client.connect(plan.url, tenant=plan.tenant))
            for _ in range(plan.clients)
        ]
        # A connection for each of many clients would cost more than their calls. The exchange holds it weakly.
        window = asyncio.Semaphore(_MANY)
        if plan.stands_for_many:
            for client in clients:
                client._exchange._windows[plan.priority, plan.tenant] = window  # noqa: SLF001 - see above
        tokenised: list[Tokenized] = []
        if plan.tokenised:
            model = await clients[0]._catalogue.model(None, "embed")  # noqa: SLF001 - its tokenizer, once for all calls
            tokenised = [model.texts.tokenize(texts) for texts in plan.texts]
        callers = Callers(plan, clients, tokenised)
        await _warm_up(clients)
        return await Driver(callers.call).run(plan.loop, plan.when)


async def _warm_up(clients: list[Client]) -> None:
    """Have each client read the model, so that no call that counts does."""
    async with asyncio.timeout(_WARM_UP_S):
        for client in clients:
            await client._catalogue.model(None, "embed")  # noqa: SLF001 - a call would queue behind the load of others


def main() -> None:
    """Do what the standard input asks."""
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        processes.reply(runner.run(run(processes.plan(Plan))))


if __name__ == "__main__":
    main()
