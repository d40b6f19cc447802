"""The Debian packages that the tests of this folder need: which are missing, and installing them.

Knows packages.txt and apt-get. Does not know pytest: the Makefile runs this file as a script.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("packages.txt")
# Debian's own first: a client of Docker from elsewhere need not fit Debian's dockerd.
_PATH = os.pathsep.join(("/usr/sbin", "/usr/bin", os.environ.get("PATH", os.defpath)))
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package.

    Attributes:
        name: As apt-get knows it.
        program: What it brings, and is known by.
    """

    name: str
    program: str


def listed() -> tuple[Package, ...]:
    """What packages.txt names."""
    lines = LIST.read_text("utf-8").splitlines()
    return tuple(Package(*line.split()) for line in lines if line and not line.startswith("#"))


def find(program: str) -> str | None:
    """Path of a program, None where there is none."""
    return shutil.which(program, path=_PATH)


def missing() -> list[str]:
    """The packages whose programs are not here."""
    return [package.name for package in listed() if find(package.program) is None]


def environment() -> Mapping[str, str]:
    """How apt-get asks nothing, and starts none of the services that it installs."""
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}


def install(names: list[str]) -> bool:
    """Install packages with apt-get.

    Returns:
        Whether it could; what went wrong, apt-get has said.
    """
    # Servers of packages do not always answer at the first time.
    is_known = any(_apt("update") for _ in range(_ATTEMPTS))
    return is_known and _apt("install", "--yes", "--no-install-recommends", *names)


def _apt(*arguments: str) -> bool:
    command = ["apt-get", "--quiet", "-o", "Acquire::Retries=3", *arguments]
    return subprocess.run(command, env=environment(), stdout=sys.stderr, check=False).returncode == 0


def main() -> int:
    """Say what is missing, or install it; exit code 0 if nothing is missing afterwards."""
    parser = argparse.ArgumentParser(description="Say which Debian packages make test-ops misses.")
    parser.add_argument("--install", action="store_true", help="install them, as root")
    names = missing()
    if parser.parse_args().install and names and _may_install(names):
        install(names)
        names = missing()
    if names:
        print(f"missing: {' '.join(names)}; the tests that need them are skipped", file=sys.stderr)
    return 1 if names else 0


def _may_install(names: list[str]) -> bool:
    if shutil.which("apt-get") is None:
        print("there is no apt-get here: install what is missing by hand", file=sys.stderr)
        return False
    if os.geteuid() != 0:
        print(f"as root: apt-get install --no-install-recommends {' '.join(names)}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
