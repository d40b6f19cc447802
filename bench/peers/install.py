"""Makes the environment of each peer, from requirements that are resolved to the last version.

It knows directories, pip, and when there is nothing to do. It does not know what a peer is or does: a new pair of files
in requirements/ is a new environment. It needs Python and pip alone.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_LAST_WORDS = 5


@dataclass(frozen=True, slots=True)
class Peer:
    """One environment.

    Attributes:
        name: Of the requirements, and of the environment.
        requirements: Its resolved requirements.
        directory: Where it is, or will be.
    """

    name: str
    requirements: Path
    directory: Path

    @property
    def is_ready(self) -> bool:
        """Whether it holds what its requirements say now."""
        return self._stamp.exists() and self._stamp.read_text("utf-8") == self._hash()

    def install(self) -> None:
        """Make it anew: what is in it is then what the requirements say, and nothing that older ones said.

        Raises:
            subprocess.CalledProcessError: pip gave up; its stderr says why. Nothing is left behind.
        """
        shutil.rmtree(self.directory, ignore_errors=True)
        try:
            venv.create(self.directory, symlinks=True)
            _pip("--python", str(self.directory / "bin" / "python"), "install", "--no-deps", "-r", self.requirements)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self._stamp.write_text(self._hash(), "utf-8")

    def summary(self) -> str:
        """The packages that it is about, with their versions."""
        pins = dict(line.split("==") for line in _lines(self.requirements) if "==" in line)
        asked = self.requirements.with_suffix(".in")
        names = [match[0] for line in _lines(asked) if (match := _NAME.match(line))] if asked.exists() else list(pins)
        return ", ".join(f"{name} {pins[name]}" for name in names if name in pins)

    @property
    def _stamp(self) -> Path:
        return self.directory / "installed"

    def _hash(self) -> str:
        return hashlib.sha256(self.requirements.read_bytes()).hexdigest()


def find_peers(requirements: Path, into: Path) -> list[Peer]:
    """All that there are requirements for, by name."""
    return [Peer(file.stem, file, into / file.stem) for file in sorted(requirements.glob("*.txt"))]


def _pip(*arguments: str | Path) -> None:
    # The project's lock is a constraint while make runs, and peers have versions of their own.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)
    subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, env=environment)


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


def _update(peer: Peer) -> bool:
    """Install a peer unless it is ready; whether it is then."""
    if peer.is_ready:
        return True
    print(f"{peer.name}: installing into {peer.directory} …", flush=True)
    try:
        peer.install()
    except subprocess.CalledProcessError as error:
        words = [line for line in error.stderr.splitlines() if line.strip()]
        print(f"{peer.name}: pip failed:", *words[-_LAST_WORDS:], sep="\n    ", flush=True)
        return False
    return True


def _print_table(peers: Sequence[Peer]) -> None:
    width = max(len(peer.name) for peer in peers)
    for peer in peers:
        print(f"{peer.name:<{width}}  {'ready ' if peer.is_ready else 'absent'}  {peer.summary()}")


def main() -> None:
    """Install what is asked for, say what there is, and exit with 1 if something could not be installed."""
    parser = argparse.ArgumentParser(description="Make or update the environments of the benchmark's peers.")
    parser.add_argument("--only", nargs="+", action="extend", metavar="NAME", help="these peers; all without it")
    parser.add_argument("--requirements", type=Path, default=_HERE / "requirements", help="where NAME.txt is")
    parser.add_argument("--into", type=Path, default=_HERE.parents[1] / ".venv" / "peers", help="where NAME goes")
    flags = parser.parse_args()
    peers = find_peers(flags.requirements, flags.into)
    names = {peer.name for peer in peers}
    if unknown := set(flags.only or ()) - names:
        parser.error(f"--only {' '.join(sorted(unknown))}: no such peer; there are {', '.join(sorted(names))}")
    are_ready = [_update(peer) for peer in peers if peer.name in (flags.only or names)]
    _print_table(peers)
    sys.exit(not all(are_ready))


if __name__ == "__main__":
    main()
