"""The clock of one turn: which input is next, how long each call took, and what came of it.

It knows times and indices. It does not know who is called.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from adapter import Rows


class Calls:
    """Takes the times of calls, and keeps what came of each, to be judged once the clock has stopped."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        self._command = command
        self._durations: list[float] = []
        self._rows: list[Rows] = []
        self._inputs: list[int] = []
        self._begun = 0.0

    def begin(self) -> None:
        """Start the clock."""
        self._begun = time.perf_counter()

    def go_on(self) -> bool:
        """Whether there is time for one more call, or too few were made."""
        min_calls: int = self._command["min_calls"]
        seconds: float = self._command["seconds"]
        return len(self._durations) < min_calls or time.perf_counter() < self._begun + seconds

    def put(self, index: int, started: float, rows: Rows) -> None:
        """Take in one call, of the input of that index."""
        self._durations.append((time.perf_counter() - started) * 1000)
        self._inputs.append(index)
        self._rows.append(rows)

    def result(self) -> dict[str, Any]:
        """All durations; the rows go to the command's file, and which input they are of into the answer."""
        elapsed_s = time.perf_counter() - self._begun
        np.save(self._command["rows"], np.concatenate(self._rows))
        return {"ms": self._durations, "elapsed_s": elapsed_s, "inputs": self._inputs}

    def turns(self, num_inputs: int, first: int = 0, num_clients: int = 1) -> Iterator[int]:
        """The inputs of one client while there is time, its own one after the other, and none of its neighbours'."""
        turn = first
        while self.go_on():
            yield turn % num_inputs
            turn += num_clients
