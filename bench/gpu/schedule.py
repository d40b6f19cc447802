"""Runs the plan within the budget: processes prepare side by side, jobs run one at a time.

It knows who is ready, what is done and how much time is left. It does not know what a stage does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpu.bench import Sizes
from gpu.blueprint import Blueprint
from gpu.child import Command
from gpu.crew import Crew
from gpu.crowd import Crowd
from gpu.deadline import Deadline
from gpu.finding import Check, Done, Finding, Message, Outcome, Ready, Where
from gpu.plan import RULES, Job, plan
from gpu.process import Process

# What is left of the budget when nothing new is begun.
_RESERVE_S = 4
# How much longer than asked a stage may take before its process is ended.
_GRACE_S = 8
# A process that takes up the work of one that is gone needs so long at least.
_RESTART_S = 15
# The part of the budget that compiling may take.
_COMPILING = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is to be run.

    Attributes:
        backends: Those to start, the favourite first.
        stages: Those to run.
        num_processes: Of a bulk.
        sizes: Of the stages.
        bulk: The model of a bulk.
    """

    backends: Sequence[str]
    stages: frozenset[str]
    num_processes: int
    sizes: Sizes
    bulk: Blueprint


class Schedule:
    """One run of the plan."""

    def __init__(
        self,
        crew: Crew,
        extent: Extent,
        budget_s: float,
        tell: Callable[[Finding], object],
        begin: Callable[[Job], object],
    ) -> None:
        """Start the clock.

        Args:
            crew: Where processes come from.
            extent: How much is to be run.
            budget_s: Within which time.
            tell: Takes what is found.
            begin: Takes each job that is begun.
        """
        self._crew = crew
        self._extent = extent
        self._deadline = Deadline(budget_s)
        self._compiling = Deadline(budget_s * _COMPILING)
        self._tell = tell
        self._begin = begin
        self._preparing: dict[str, Process] = {}
        self._ready: dict[str, Process] = {}
        self._done: set[Job] = set()
        self._restarted: set[str] = set()

    def run(self) -> None:
        """Run all jobs that there is time for, and say which there was none for."""
        for backend in self._extent.backends:
            self._preparing[backend] = self._crew.start(backend)
        while self._deadline.left_s > _RESERVE_S:
            job = next((job for job in self._jobs() if self._can_run(job)), None)
            if job is not None:
                self._do(job)
            elif self._preparing:
                self._wait_for_ready()
            else:
                break
        for job in self._jobs():
            self._tell(Check(Where(job.stage, job.backend), "the stage", "skipped", "the budget was used up"))

    def _jobs(self) -> Iterator[Job]:
        """Those still to be done, by backends that are alive."""
        alive = [name for name in self._extent.backends if name in self._preparing or name in self._ready]
        return (job for job in plan(alive) if job.stage in self._extent.stages and job not in self._done)

    def _can_run(self, job: Job) -> bool:
        return job.backend in self._ready and not (RULES[job.stage].wants_quiet and self._preparing)

    def _wait_for_ready(self) -> None:
        left_s = min(self._compiling.left_s, self._deadline.left_s - _RESERVE_S)
        heard = self._crew.receive(max(0, left_s))
        if heard is not None:
            self._notice(*heard)
            return
        for backend, process in self._preparing.items():
            process.end()
            detail = (
                f"not within {self._compiling.seconds:.0f} s; what it compiled is kept, so a second run may do better"
            )
            self._tell(Check(Where("prepare", backend), "it is ready in time", "skipped", detail))
        self._preparing.clear()

    def _do(self, job: Job) -> None:
        self._begin(job)
        self._done.add(job)
        process = self._ready[job.backend]
        seconds = min(RULES[job.stage].seconds, self._deadline.left_s - _RESERVE_S)
        limit = Deadline(min(seconds + _GRACE_S, self._deadline.left_s))
        if job.stage == "bulk":
            self._do_bulk(process, limit)
            return
        process.tell(Command(job.stage, seconds).to_line())
        while True:
            heard = self._crew.receive(limit.left_s)
            if heard is None:
                process.end()
                self._lose(process, job.stage, f"no answer in {limit.seconds:.0f} s, so its process was ended")
                return
            self._notice(*heard, stage=job.stage)
            if heard[0] is process and (heard[1] is None or isinstance(heard[1], Done)):
                return

    def _do_bulk(self, process: Process, limit: Deadline) -> None:
        crowd = Crowd(self._crew, process, limit, self._tell)
        try:
            crowd.measure(self._extent.num_processes, self._extent.sizes.bulk, self._extent.bulk)
        except RuntimeError as error:
            # Whoever it was, this one may be in the middle of its part.
            process.end()
            self._lose(process, "bulk", str(error))

    def _notice(self, process: Process, message: Message | None, stage: str = "prepare") -> None:
        is_preparing = process in self._preparing.values()
        is_ours = is_preparing or process in self._ready.values()
        match message:
            case None if is_ours:
                # Another's job may be running meanwhile, which is not to blame.
                self._lose(process, "prepare" if is_preparing else stage, process.last_words())
            case Ready() if is_ours:
                del self._preparing[process.backend]
                if message.models:
                    self._ready[process.backend] = process
                else:
                    process.end()
            case _ if isinstance(message, Finding):
                self._tell(message)

    def _lose(self, process: Process, stage: str, reason: str) -> None:
        """Say that a process is gone, and start another in its place, once."""
        backend = process.backend
        self._preparing.pop(backend, None)
        self._ready.pop(backend, None)
        has_time = self._deadline.left_s > _RESTART_S
        outcome: Outcome = "failed" if has_time else "skipped"  # without time, it may just not have had enough
        self._tell(Check(Where(stage, backend), "its process lives", outcome, reason))
        if has_time and backend not in self._restarted and stage != "prepare":
            self._restarted.add(backend)
            self._preparing[backend] = self._crew.start(backend)
