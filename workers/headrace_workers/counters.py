"""What a worker counts of itself.

Plain numbers, changed on the event loop only. Any thread may read them: every key is there from the start, so what is
read never changes its size, and a number is replaced as a whole. Does not know who reads them; metrics.py gives them
their names.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from headrace_contracts import PRIORITIES, TASKS, BadItem, ErrorCode, Priority, Usage

from headrace_workers.histogram import Histogram

if TYPE_CHECKING:  # these import torch, and whoever imports this package need not have it
    from headrace_workers.delivery import Delivery
    from headrace_workers.step import Step
    from headrace_workers.work import Work

OK = "ok"
UNKNOWN = "unknown"
OUTCOMES = (OK, *map(str, ErrorCode))
# In the order that a chunk goes through them; packing is done while it still waits.
STAGES = ("queue", "pack", "run", "reply")

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Outcomes: TypeAlias = dict[tuple[Priority, str, str], int]


def _outcomes() -> Outcomes:
    return dict.fromkeys(product(PRIORITIES, (*TASKS, UNKNOWN), OUTCOMES), 0)


def _by_class() -> dict[Priority, int]:
    return dict.fromkeys(PRIORITIES, 0)


def _stages() -> dict[tuple[Priority, str], Histogram]:
    return {key: Histogram(_SECONDS) for key in product(PRIORITIES, STAGES)}


def _requests() -> dict[Priority, Histogram]:
    return {priority: Histogram(_SECONDS) for priority in PRIORITIES}


@dataclass(slots=True)
class Counters:
    """Totals since the start, and what is in hand now.

    Attributes:
        delivered: messages that came in.
        chunks: those that were answered, by class, task (`unknown` where it could not be read) and outcome: `ok`, or
            the error code.
        sequences: of the chunks that had a result, by class, task and outcome of each.
        tokens_in: tokens that were pulled, by class.
        tokens_out: tokens that ran and were answered, by class.
        redelivered: messages that came a second time or more often, by class.
        letters: messages kept in HR_DEAD, by class; their chunks are counted with their error code as well.
        given_back: messages nak'ed by a drain.
        abandoned: messages that could be neither answered nor given back; the broker redelivers them.
        steps: steps that ran to the end.
        failed_steps: steps that raised.
        failed_in_a_row: how many of them, since one ran to the end.
        failure: what the last of them raised.
        ran_s: when a step last ran to the end, by the monotonic clock; None before the first.
        took_s: how long it took.
        tokens: tokens of steps that ran to the end.
        held_tokens: tokens pulled and not yet answered.
        max_held_tokens: the most that ever were.
        step_tokens, step_sequences: how large steps were.
        step_fill: which share of the step budget they had.
        stages: seconds that chunks with a result spent in each stage, by class and stage.
        requests: seconds from when the broker stored them until their reply was sent, by class.
    """

    delivered: int = 0
    chunks: Outcomes = field(default_factory=_outcomes)
    sequences: Outcomes = field(default_factory=_outcomes)
    tokens_in: dict[Priority, int] = field(default_factory=_by_class)
    tokens_out: dict[Priority, int] = field(default_factory=_by_class)
    redelivered: dict[Priority, int] = field(default_factory=_by_class)
    letters: dict[Priority, int] = field(default_factory=_by_class)
    given_back: int = 0
    abandoned: int = 0
    steps: int = 0
    failed_steps: int = 0
    failed_in_a_row: int = 0
    failure: str = ""
    ran_s: float | None = None
    took_s: float = 0.0
    tokens: int = 0
    held_tokens: int = 0
    max_held_tokens: int = 0
    step_tokens: Histogram = field(default_factory=lambda: Histogram(_TOKENS))
    step_sequences: Histogram = field(default_factory=lambda: Histogram(_SEQUENCES))
    step_fill: Histogram = field(default_factory=lambda: Histogram(_SHARES))
    stages: dict[tuple[Priority, str], Histogram] = field(default_factory=_stages)
    requests: dict[Priority, Histogram] = field(default_factory=_requests)

    @property
    def answered(self) -> int:
        """Chunks whose result was sent."""
        return self._with(OK)

    @property
    def expired(self) -> int:
        """Chunks whose deadline passed before they could run."""
        return self._with(ErrorCode.EXPIRED)

    @property
    def cancelled(self) -> int:
        """Chunks that their callers gave up before they could run."""
        return self._with(ErrorCode.CANCELLED)

    @property
    def refused(self) -> int:
        """Chunks that were answered with an error, for another reason than these two."""
        return sum(self.chunks.values()) - self.answered - self.expired - self.cancelled

    @property
    def dead_lettered(self) -> int:
        """Messages kept in HR_DEAD; also counted as refused."""
        return sum(self.letters.values())

    @property
    def non_finite(self) -> int:
        """Sequences for which the model gave what is no number."""
        return sum(number for key, number in self.sequences.items() if key[2] == ErrorCode.NON_FINITE)

    def _with(self, outcome: str) -> int:
        return sum(number for key, number in self.chunks.items() if key[2] == outcome)

    def arrive(self, delivery: "Delivery") -> None:
        """A message came in."""
        self.delivered += 1
        if delivery.count > 1:
            self.redelivered[delivery.priority] += 1

    def hold(self, delivery: "Delivery") -> None:
        """It turned out to have so many tokens, which are in hand from now on."""
        self.tokens_in[delivery.priority] += delivery.num_tokens
        self.held_tokens += delivery.num_tokens
        self.max_held_tokens = max(self.max_held_tokens, self.held_tokens)

    def let_go(self, delivery: "Delivery") -> None:
        """It was settled."""
        self.held_tokens -= delivery.num_tokens

    def run(self, step: "Step", run_ms: float) -> None:
        """A step ran to the end, in so many ms."""
        self.steps += 1
        self.tokens += step.num_tokens
        self.failed_in_a_row = 0
        self.ran_s, self.took_s = monotonic(), run_ms / 1000
        self.step_tokens.observe(step.num_tokens)
        self.step_sequences.observe(step.num_sequences)
        self.step_fill.observe(step.fill)
        for priority, number in step.num_chunks.items():
            self.stages[priority, "pack"].observe(step.pack_ms / 1000, number)
            self.stages[priority, "run"].observe(run_ms / 1000, number)

    def fail(self, error: Exception) -> None:
        """A step raised."""
        self.failed_steps += 1
        self.failed_in_a_row += 1
        self.failure = repr(error)

    def answer(self, work: "Work", bad: Iterable[BadItem], usage: Usage) -> None:
        """A chunk's result was sent just now.

        Args:
            work: the chunk.
            bad: its sequences without a result.
            usage: what the reply says it cost.
        """
        priority, task = work.delivery.priority, work.chunk.task
        self.chunks[priority, task, OK] += 1
        num_good = work.chunk.num_sequences
        for item in bad:
            self.sequences[priority, task, item.code] += 1
            num_good -= 1
        self.sequences[priority, task, OK] += num_good
        self.tokens_out[priority] += usage.tokens
        took_ms = work.delivery.age_ms
        self.stages[priority, "queue"].observe(usage.queue_ms / 1000)
        # Where the broker's clock is ahead of this machine's, times since it stored something are too short.
        self.stages[priority, "reply"].observe(max(0.0, took_ms - usage.queue_ms - usage.run_ms) / 1000)
        self.requests[priority].observe(took_ms / 1000, trace_id=work.trace_id)

    def refuse(self, delivery: "Delivery", task: str | None, code: ErrorCode) -> None:
        """A chunk was answered with an error code; None is a task that could not be read."""
        self.chunks[delivery.priority, task or UNKNOWN, code] += 1

    def keep(self, delivery: "Delivery") -> None:
        """A message was kept in HR_DEAD."""
        self.letters[delivery.priority] += 1
