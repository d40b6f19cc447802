"""What is asked of the fleet meanwhile: queries, passages and large calls, by the library and by HTTP, patient or not.

It knows how much of each. It does not know how a call is made, nor what is judged.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from economics import processes
from online import gateway_process
from online.ground import Ground, run
from online.http_traffic import HttpPlan
from online.plan import Loop, Plan, Ran, When

_LARGE = 48  # passages of a large call
_HURRY_S = 0.03  # a deadline that a busy fleet does not keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Calls a second of each kind.

    Attributes:
        queries: Of a tenant that asks for one short text.
        passages: Of another that asks for one long text.
        large: Of many passages each.
        hurried: Queries that nobody waits for as long as they take.
        http: Queries through the gateway.
    """

    queries: float = 12
    passages: float = 2
    large: float = 0.1
    hurried: float = 1
    http: float = 6


async def ask(ground: Ground, url: str, gateway_port: int, rates: Rates, when: When) -> Mapping[str, Ran]:
    """Run all of it; what came of each kind, by its name.

    Raises:
        ProcessFailed: A process of callers ended before its time.
    """
    queries = ground.queries()
    plans = {
        "queries": Plan(url=url, texts=queries, loop=Loop(rate=rates.queries, seed=1), when=when, tenant="search"),
        "passages": Plan(
            url=url, texts=ground.passages(), loop=Loop(rate=rates.passages, seed=2), when=when, tenant="chat"
        ),
        "large": Plan(url=url, texts=ground.passages(_LARGE), loop=Loop(rate=rates.large, seed=3), when=when),
        "hurried": Plan(url=url, texts=queries, loop=Loop(rate=rates.hurried, seed=4), when=when, timeout_s=_HURRY_S),
    }
    bodies = [json.dumps({"model": gateway_process.MODEL, "input": texts}) for texts in queries]
    http = HttpPlan(
        port=gateway_port, path="/v1/embeddings", bodies=bodies, loop=Loop(rate=rates.http, seed=5), when=when
    )
    async with asyncio.TaskGroup() as tasks:
        by_library = tasks.create_task(run(*plans.values()))
        by_http = tasks.create_task(processes.ask("online.http_traffic", http, Ran))
    return dict(zip(plans, by_library.result(), strict=True)) | {"http": by_http.result()}
