"""The benchmarks are scripts beside each other, so their folder must be on the path, as it is when one is run."""

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

# Last, so that no module of theirs hides another.
sys.path.append(str(BENCH))
