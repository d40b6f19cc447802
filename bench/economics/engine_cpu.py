"""`python -m economics.engine_cpu`: processor seconds that the engine alone needs for a token, in a process of its own.

It knows the engine and shapes of steps. It knows no broker.
"""

import time
from dataclasses import dataclass

import numpy as np
from economics import processes
from headrace_engine import Engine, EngineConfig, pack

_SOME_ID = 1000
_MIN_STEPS = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """A step: so many sequences of so many tokens each."""

    sequences: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is asked.

    Attributes:
        model: As the engine takes it.
        dtype: As `EngineConfig` takes it.
        threads: To compute with.
        shapes: Of the steps to measure.
        seconds: For each shape.
    """

    model: str
    dtype: str
    threads: int
    shapes: tuple[Shape, ...]
    seconds: float


async def measure(plan: Plan) -> list[float]:
    """Processor seconds a token for each shape, in the order of the plan.

    Threads that wait for others sleep here: what they would burn by spinning is no need of the engine's, and would make
    anything look cheap beside it.
    """
    return await processes.ask("economics.engine_cpu", plan, list[float], {"OMP_WAIT_POLICY": "passive"})


def run(plan: Plan) -> list[float]:
    """Measure in this process."""
    engine = Engine.load(plan.model, EngineConfig(dtype=plan.dtype, threads=plan.threads))
    return [_cpu_s_per_token(engine, shape, plan.seconds) for shape in plan.shapes]


def _cpu_s_per_token(engine: Engine, shape: Shape, seconds: float) -> float:
    """User and system time of the whole process over some steps, after one to warm up."""
    batch = pack([np.full(shape.length, _SOME_ID, np.uint32)] * shape.sequences)
    engine.step(batch).numpy()
    steps, started_s, until = 0, time.process_time(), time.perf_counter() + seconds
    while steps < _MIN_STEPS or time.perf_counter() < until:
        engine.step(batch).numpy()
        steps += 1
    return (time.process_time() - started_s) / (steps * batch.num_tokens)


if __name__ == "__main__":
    processes.reply(run(processes.plan(Plan)))
