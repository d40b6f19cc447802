"""`headrace calibrate`, run as a user runs it, before anything else: the workers that are measured take what it stores.

It knows the command and its JSON. It does not know how anything is measured or chosen.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace_workers.calibration import document
from headrace_workers.calibration.calibration import Calibration
from result import Calibrated, Point

_LOADING_S = 120.0


def calibrate(model: Path, dtype: str, threads: int, budget_s: float, environment: Mapping[str, str]) -> Calibrated:
    """Calibrate a model, and read what was found.

    Args:
        model: Directory.
        dtype: As the workers will have it.
        threads: As the workers will have them.
        budget_s: Seconds to measure for.
        environment: Variables, which say where it is stored.

    Raises:
        RuntimeError: It failed; the text has its last words.
        subprocess.TimeoutExpired: It took far longer.
    """
    command = [sys.executable, "-m", "headrace", "calibrate", str(model), "--dtype", dtype, "--threads", str(threads)]
    command += ["--budget-s", f"{budget_s:g}", "--json", "-"]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=budget_s + _LOADING_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"headrace calibrate ended with exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    return read(document.decode(done.stdout))


def read(found: Calibration) -> Calibrated:
    """Take over what the report shows of a calibration."""
    cost, choice = found.cost, found.choice
    return Calibrated(
        points=tuple(
            Point(sequences=point.num_sequences, length=point.longest, ms=point.ms)
            for point in found.points
            # The report draws a line for each length; of mixed ones there is none.
            if point.num_sequences > 1 and point.num_sequences * point.longest == point.num_tokens
        ),
        a_ms=cost.a_ms,
        b_us=cost.b_ms * 1e3,
        c_ns=cost.c_ms * 1e6,
        step_tokens=choice.step_tokens,
        budget_tokens=choice.budget_tokens,
        saturation_tokens=choice.saturation_tokens or 1,
        quadratic_length=choice.quadratic_length,
        target_ms=choice.target_ms,
    )
