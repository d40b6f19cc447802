"""One step: works that are packed, then run, together.

Knows what a step is made of and how large it is. Does not know who plans it, runs it or answers it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_contracts import Priority
from headrace_engine import RaggedBatch

from headrace_workers.lane import StepResult
from headrace_workers.work import Work, prepare

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(frozen=True, slots=True)
class Packed:
    """Works that are ready to run.

    Attributes:
        works: in packing order.
        batch: their runnable sequences.
        pack_ms: how long packing took.
    """

    works: tuple[Work, ...]
    batch: RaggedBatch
    pack_ms: float

    @classmethod
    def of(cls, works: tuple[Work, ...]) -> "Packed":
        """Pack them."""
        started = time.perf_counter()
        batch = prepare(works)
        return cls(works, batch, (time.perf_counter() - started) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step on its way through the device.

    Attributes:
        works: whose sequences run in it, in packing order.
        pack_ms: how long packing them took.
        queue_ms: how long each of them had waited when it started.
        num_tokens: tokens of all of them.
        num_sequences: sequences of all of them.
        fill: the share of the step budget that their tokens are.
        tells: whether its time says how fast this worker is (rate.py).
        result: its rows, later.
        span: of its trace, where one of its chunks is traced.
    """

    works: tuple[Work, ...]
    pack_ms: float
    queue_ms: tuple[float, ...]
    num_tokens: int
    num_sequences: int
    fill: float
    tells: bool
    result: "asyncio.Future[StepResult]"
    span: "Span | None" = None

    @property
    def num_chunks(self) -> Mapping[Priority, int]:
        """How many works of each class there are in it."""
        return Counter(work.delivery.priority for work in self.works)
