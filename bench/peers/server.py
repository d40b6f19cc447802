"""The commands of the benchmark, done with a server: by clients in one event loop, or in processes of their own.

It knows the commands. It does not know what the server is.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from adapter import Client, Rows, Server
from calls import Calls
from crowd import Crowd
from event_loop import runner


def run(server: Server, command: Mapping[str, Any]) -> dict[str, Any]:
    """Do one command; what is answered is `Calls.result`'s."""
    if command["do"] == "crowd":
        return _crowd(server, command)
    with runner() as loop:
        return loop.run(_run(server, command))


async def _run(server: Server, command: Mapping[str, Any]) -> dict[str, Any]:
    client = await server.open_client()
    try:
        match command:
            case {"do": "embed", "batches": batches}:
                return await _one_by_one(lambda index: client.embed(batches[index]), len(batches), command)
            case {"do": "score", "query": query, "documents": documents}:
                return await _one_by_one(lambda _: client.score(query, documents), 1, command)
            case {"do": "clients", "texts": texts, "clients": num_clients}:
                return await _clients(client, texts, num_clients, command)
        raise ValueError(f"there is no command {command!r}")
    finally:
        await client.close()


async def _one_by_one(
    call: Callable[[int], Awaitable[Rows]], num_inputs: int, command: Mapping[str, Any]
) -> dict[str, Any]:
    calls = Calls(command)
    for _ in range(command["warm_calls"]):
        await call(0)
    calls.begin()
    for index in calls.turns(num_inputs):
        started = time.perf_counter()
        calls.put(index, started, await call(index))
    return calls.result()


async def _clients(
    client: Client, texts: Sequence[str], num_clients: int, command: Mapping[str, Any]
) -> dict[str, Any]:
    """So many clients, each with one call of one text at a time."""
    calls = Calls(command)

    async def call_on(first: int) -> None:
        for index in calls.turns(len(texts), first, num_clients):
            started = time.perf_counter()
            calls.put(index, started, await client.embed([texts[index]]))

    await asyncio.gather(*(client.embed([texts[first % len(texts)]]) for first in range(num_clients)))  # connect
    calls.begin()
    await asyncio.gather(*map(call_on, range(num_clients)))
    return calls.result()


def _crowd(server: Server, command: Mapping[str, Any]) -> dict[str, Any]:
    """Batches that processes of their own hand in at the same moment."""
    calls = Calls(command)
    with Crowd(server.open_client, command["batches"]) as crowd:
        calls.begin()
        for index in calls.turns(1):
            started = time.perf_counter()
            calls.put(index, started, crowd.run())
    return calls.result()
