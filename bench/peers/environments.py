"""The environments of peers, seen from inside one of them.

It knows that they lie beside each other, as install.py made them. It does not know what is in them.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path


def python_of(name: str) -> Path:
    """The interpreter of another environment.

    Raises:
        FileNotFoundError: There is no such environment.
    """
    python = Path(sys.prefix).parent / name / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"{python} does not exist: run bench/peers/install.py --only {name}")
    return python


def versions_of(packages: Sequence[str], python: Path = Path(sys.executable)) -> dict[str, str]:
    """The versions of some packages in the environment of an interpreter; those that it lacks are left out."""
    paths = [str(path) for path in python.parents[1].glob("lib/python3*/site-packages")]
    return {package: dist.version for package in packages for dist in distributions(name=package, path=paths)}
