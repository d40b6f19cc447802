"""The token budget: what is pulled and not yet answered never exceeds it, because the broker is asked for no more."""

import asyncio
import json
import random

from headrace import Client, local
from headrace_contracts import limits, topology
from headrace_engine import Engine
from nats.aio.msg import Msg

from ..waiting import until
from .broker_view import connected
from .harness import WatchedEngine, brisk, running

BUDGET = 16_000


async def test_tokens_in_hand_never_exceed_the_budget_under_a_random_load(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    dice = random.Random(7)  # noqa: S311 - a load, not a secret
    texts = [[f"{'word ' * dice.randrange(1, 200)}" for _ in range(dice.randrange(1, 12))] for _ in range(60)]
    asked: list[dict[str, int]] = []

    async def see(message: Msg) -> None:
        asked.append(json.loads(message.data))

    config = brisk(nats_server.url, budget_tokens=BUDGET, step_tokens=600, max_chunk_tokens=300, pull_expires_s=0.2)
    async with connected(nats_server.url) as observer:
        await observer.subscribe("$JS.API.CONSUMER.MSG.NEXT.>", cb=see)
        await observer.flush()
        engine = WatchedEngine(shallow, held=True)
        async with running(engine, config) as worker:
            calls = asyncio.gather(*(client.embed(call, priority=dice.choice(["online", "batch"])) for call in texts))
            # With the device held, the worker takes in as much as it ever may.
            await until(lambda: worker.counters.held_tokens >= BUDGET // 6, "the budget fills up")
            engine.release()
            answers = await calls
    assert sum(answer.usage.tokens for answer in answers) > 2 * BUDGET
    assert BUDGET // 6 <= worker.counters.max_held_tokens <= BUDGET
    assert worker.counters.held_tokens == 0
    # The broker holds the worker to it: no pull ever asked for more than its class may have.
    assert asked
    assert max(pull["max_bytes"] for pull in asked) <= BUDGET // 2 * limits.TOKEN_BYTES
    # Idle workers are served before busy ones that only prefetch.
    assert asked[0]["priority"] == topology.IDLE
    assert {pull["priority"] for pull in asked} == {topology.IDLE, topology.PREFETCH}
