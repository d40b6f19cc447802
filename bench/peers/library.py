"""The commands of the benchmark, done with a library: its clients are threads of its process.

It knows the commands. Who serves whom when several wait, desk.py knows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adapter import Library, Rows
from calls import Calls
from desk import Desk, embed_all


def run(library: Library, command: Mapping[str, Any]) -> dict[str, Any]:
    """Do one command; what is answered is `Calls.result`'s."""
    match command:
        case {"do": "embed", "batches": batches}:
            return _one_by_one(lambda index: library.embed(batches[index]), len(batches), command)
        case {"do": "score", "query": query, "documents": documents}:
            return _one_by_one(lambda _: library.score(query, documents), 1, command)
        case {"do": "crowd", "batches": batches}:
            # Nobody else can call it: the batches of other processes are handed in here.
            return _one_by_one(lambda _: embed_all(library, batches), 1, command)
        case {"do": "clients", "texts": texts, "clients": num_clients}:
            return _clients(library, texts, num_clients, command)
    raise ValueError(f"there is no command {command!r}")


def _one_by_one(call: Callable[[int], Rows], num_inputs: int, command: Mapping[str, Any]) -> dict[str, Any]:
    calls = Calls(command)
    for _ in range(command["warm_calls"]):
        call(0)
    calls.begin()
    for index in calls.turns(num_inputs):
        started = time.perf_counter()
        calls.put(index, started, call(index))
    return calls.result()


def _clients(library: Library, texts: Sequence[str], num_clients: int, command: Mapping[str, Any]) -> dict[str, Any]:
    """So many clients, each with one call of one text at a time."""
    calls = Calls(command)
    desk = Desk.of(library, num_clients)

    def client(first: int) -> None:
        for index in calls.turns(len(texts), first, num_clients):
            started = time.perf_counter()
            calls.put(index, started, desk.ask([texts[index]]))

    with ThreadPoolExecutor(num_clients) as threads:
        if command["warm_calls"]:
            desk.warm_up([texts[0]])
        calls.begin()
        clients = [threads.submit(client, first) for first in range(num_clients)]
        desk.serve_until_done(clients)
        for each in clients:
            each.result()
    return calls.result()
