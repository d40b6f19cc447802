"""Importing it makes the engine importable where this repository was copied and not installed, as on a rented GPU.

It knows where the engine lies. It does nothing where it is installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("headrace_engine") is None:
    sys.path.append(str(Path(__file__).parents[1] / "engine"))
