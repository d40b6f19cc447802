"""The order of a suite: everyone warms up, then all take turns, in another order each round, and each answer is judged.

It knows turns, clocks and processor seconds. It does not know what is asked. Turns of one round are close in time, so
their ratios hold on a machine that changes its speed; the order is drawn anew for each round, so that nobody always
runs after the same neighbour.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from child import Broken
from result import Case, Entry, Suite
from timing import Spread

from suites.field import Field, Runner
from suites.judge import BOUND, Rows, WrongShape, divergence
from suites.plan import Job, Plan
from suites.scale import Scale

# A call of the slowest contender, with a margin.
_PATIENCE_S = 300.0
# ONNX Runtime's threads spin for about 40 ms after a call.
_SETTLE_S = 0.1


@dataclass(slots=True, eq=False)
class Record:
    """What one contender did in one case.

    Attributes:
        divergence: Of the farthest of its rows; None while there are none.
        reason: Why it is out of the case; empty while it is in.
        durations_ms: Of all calls.
        rounds_ms: The median of each round.
        rounds_per_s: Calls a second of each round.
        calls: How many.
        elapsed_s: That they took together.
        cpu_s: Of all its processes.
    """

    divergence: float | None = None
    reason: str = ""
    durations_ms: list[float] = field(default_factory=list)
    rounds_ms: list[float] = field(default_factory=list)
    rounds_per_s: list[float] = field(default_factory=list)
    calls: int = 0
    elapsed_s: float = 0
    cpu_s: float = 0

    def judge(self, rows: Rows, expected: Sequence[Rows], inputs: Sequence[int]) -> None:
        """Compare the rows of some calls, each of the input of that index.

        Raises:
            WrongShape: They cannot be compared.
        """
        right = np.concatenate([expected[index] for index in inputs])
        if right.ndim == 1:
            # Scores are compared call by call, each around its own mean.
            found = max(
                divergence(part, expected[index])
                for part, index in zip(np.split(rows, len(inputs)), inputs, strict=True)
            )
        else:
            found = divergence(rows, right)
        self.divergence = max(found, self.divergence or 0)

    def take(self, durations_ms: Sequence[float], elapsed_s: float, cpu_s: float) -> None:
        """Take in a timed turn."""
        self.durations_ms += durations_ms
        self.rounds_ms.append(float(np.median(durations_ms)))
        self.rounds_per_s.append(len(durations_ms) / elapsed_s)
        self.calls += len(durations_ms)
        self.elapsed_s += elapsed_s
        self.cpu_s += cpu_s

    def entry(self, contender: str, job: Job, limit_ms: float) -> Entry:
        """As the result keeps it."""
        is_right = self.divergence is not None and self.divergence <= BOUND
        if not self.rounds_ms:
            return Entry(contender=contender, divergence=self.divergence, is_right=is_right, reason=self.reason)
        calls_per_s = self.calls / self.elapsed_s
        return Entry(
            contender=contender,
            divergence=self.divergence,
            is_right=is_right and not self.reason,
            reason=self.reason,
            took=Spread.of(self.durations_ms),
            rounds_ms=tuple(self.rounds_ms),
            rounds_per_s=tuple(rate * job.texts for rate in self.rounds_per_s),
            per_s=calls_per_s * job.texts,
            tokens_per_s=calls_per_s * job.tokens,
            # What four processes of clients used is gone with them.
            cpu_s_per_mtoken=None if job.command["do"] == "crowd" else self.cpu_s / (self.calls * job.tokens) * 1e6,
            limit_share=limit_ms / 1000 * calls_per_s,
        )


class Race:
    """Runs suites on a field."""

    def __init__(
        self, there: Field, expected: Mapping[str, Sequence[Rows]], scale: Scale, work: Path, say: Callable[[str], None]
    ) -> None:
        """Take what stays the same from suite to suite.

        Args:
            there: The contenders.
            expected: The reference's rows for each input, by the names of jobs.
            scale: How long a turn is.
            work: A directory for rows.
            say: Told what happens.
        """
        self._field = there
        self._expected = expected
        self._scale = scale
        self._rows = work / "rows.npy"
        self._say = say
        self._order = random.Random(0)  # noqa: S311 - an order, not a secret

    def run(self, plan: Plan, sample: Callable[[], None], flop_per_s: Callable[[], float]) -> Suite:
        """Run one suite.

        Args:
            plan: What to do.
            sample: Called between cases: measures the machine's matrix rate.
            flop_per_s: What it has come to, at the end.
        """
        records = {}
        for job in plan.jobs:
            sample()
            records[job.name] = self._case(plan, job)
        sample()
        rate = flop_per_s()
        return Suite(
            name=plan.name,
            title=plan.title,
            what=plan.what,
            better=plan.better,
            cases=tuple(_case(job, records[job.name], job.flop / rate * 1000) for job in plan.jobs),
        )

    def _case(self, plan: Plan, job: Job) -> dict[str, Record]:
        records = {runner.name: Record() for runner in self._field.running()}

        def still_in() -> list[Runner]:
            return [runner for runner in self._field.running() if not records[runner.name].reason]

        for runner in still_in():
            self._say(f"{plan.title}, {job.name}: {runner.entrant.label} warms up")
            self._warm_up(runner, job, records[runner.name])
        for number in range(plan.rounds):
            turn = still_in()
            for runner in self._order.sample(turn, len(turn)):
                self._say(f"{plan.title}, {job.name}: round {number + 1} of {plan.rounds}, {runner.entrant.label}")
                self._turn(runner, job, records[runner.name])
        return records

    def _warm_up(self, runner: Runner, job: Job, record: Record) -> None:
        command = job.command if job.warm_command is None else job.warm_command
        answer = self._ask(runner, command, self._scale.warm_s if job.repeats else 0, 0, record)
        if answer is not None and job.warm_command is None:
            self._judge(job, answer, record)

    def _turn(self, runner: Runner, job: Job, record: Record) -> None:
        """Let one contender run, and judge what came."""
        # Some keep their threads spinning for a while after a call.
        time.sleep(_SETTLE_S)
        before = runner.child.cost().cpu_s
        # Where calls are short, one that does not count: whoever ran before has left its own data in the caches.
        answer = self._ask(runner, job.command, self._scale.turn_s if job.repeats else 0, int(job.repeats), record)
        cpu_s = runner.child.cost().cpu_s - before
        if answer is not None and self._judge(job, answer, record):
            record.take(answer["ms"], answer["elapsed_s"], cpu_s)

    def _ask(
        self, runner: Runner, command: Mapping[str, Any], seconds: float, warm_calls: int, record: Record
    ) -> Mapping[str, Any] | None:
        self._rows.unlink(missing_ok=True)
        more = {"seconds": seconds, "min_calls": 1, "warm_calls": warm_calls, "rows": str(self._rows)}
        try:
            return runner.ask({**command, **more}, _PATIENCE_S)
        except Broken as error:
            record.reason = str(error)
            return None

    def _judge(self, job: Job, answer: Mapping[str, Any], record: Record) -> bool:
        """Whether the answer is one, right or wrong."""
        try:
            record.judge(np.load(self._rows), self._expected[job.name], answer["inputs"])
        except WrongShape as error:
            record.reason = str(error)
        except (OSError, ValueError, EOFError, KeyError, IndexError) as error:
            record.reason = f"its answer is no answer: {error!r}"
        return not record.reason


def _case(job: Job, records: Mapping[str, Record], limit_ms: float) -> Case:
    return Case(
        name=job.name,
        texts=job.texts,
        tokens=job.tokens,
        flop=job.flop,
        limit_ms=limit_ms,
        entries=tuple(record.entry(name, job, limit_ms) for name, record in records.items()),
    )
