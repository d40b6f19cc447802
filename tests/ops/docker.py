"""A Docker daemon of the tests' own: nothing of it is seen by another one, and nothing is left of it.

Knows dockerd, docker and docker-compose as Debian packages them. Does not know what is built or run.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import packages

_START_S = 60.0
_LAST_WORDS = 2000


class CannotRun(Exception):
    """Docker cannot run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Docker:
    """A daemon that answers.

    Attributes:
        folder: With its socket and all that it keeps.
        environment: For its clients.
    """

    folder: Path
    environment: Mapping[str, str]

    def __call__(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `docker` and keep what it says; see `run`."""
        return self.run("docker", *arguments, check=check)

    def run(
        self, program: str, *arguments: str, check: bool = True, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a client of Docker.

        Raises:
            AssertionError: It failed; the text holds what it said.
        """
        ended = subprocess.run(
            [found(program), *arguments],
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"{ended.stdout[-_LAST_WORDS:]}{ended.stderr[-_LAST_WORDS:]}"
        assert not check or ended.returncode == 0, f"{program} {arguments}: {said}"
        return ended

    def inspect(self, name: str, template: str) -> str:
        """A field of an image or a container."""
        return self("inspect", "--format", template, name).stdout.strip()

    def wait_until_healthy(self, name: str) -> None:
        """Wait for the event that its health check came out well, for as long as the test's timeout lets it."""
        command = ["events", "--since", "0", "--filter", f"container={name}", "--format", "{{.Status}}"]
        with subprocess.Popen(
            [found("docker"), *command], env=dict(self.environment), stdout=subprocess.PIPE, text=True
        ) as events:
            assert events.stdout is not None
            try:
                for line in events.stdout:
                    assert line.strip() != "die", self("logs", name).stdout + self("logs", name).stderr
                    if line.strip() == "health_status: healthy":
                        return
            finally:
                events.terminate()


def found(program: str) -> str:
    """Path of a program that a fixture has seen to be here."""
    path = packages.find(program)
    assert path is not None, program
    return path


@contextmanager
def docker() -> Iterator[Docker]:
    """Run dockerd while the context lasts, and end by its id what is left of it.

    Raises:
        CannotRun: This is not root, or the kernel does not allow it.
    """
    if os.geteuid() != 0:
        raise CannotRun("dockerd needs root")
    with _folder() as folder:
        host = f"unix://{folder}/socket"
        command = [
            *(
                found("dockerd"),
                "--host",
                host,
                "--data-root",
                str(folder / "data"),
                "--exec-root",
                str(folder / "exec"),
            ),
            *("--pidfile", str(folder / "pid"), "--storage-driver", "overlay2"),
            # The machine's own firewall, addresses and bridges stay as they are.
            *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"),
        ]
        environment = {**os.environ, "DOCKER_HOST": host, "DOCKER_CONFIG": str(folder), "DOCKER_BUILDKIT": "1"}
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as daemon:
            try:
                running = Docker(folder, environment)
                _wait(running, daemon)
                yield running
                _remove_all(running)
            finally:
                daemon.terminate()
                daemon.wait(_START_S)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that is gone afterwards: tens of thousands of files, which `rm` removes much faster than Python does."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-docker-"))
    try:
        yield folder
    finally:
        # dockerd leaves the network of the host mounted there.
        subprocess.run(["umount", str(folder / "exec" / "netns" / "default")], stderr=subprocess.DEVNULL, check=False)  # noqa: S607 - as below
        subprocess.run(["rm", "-rf", str(folder)], check=False)  # noqa: S607 - from the PATH of whoever runs the tests


def _wait(running: Docker, daemon: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _START_S
    while running("version", check=False).returncode != 0:
        if daemon.poll() is not None or time.monotonic() > end:
            raise CannotRun(f"dockerd does not run here: {(running.folder / 'log').read_text()[-_LAST_WORDS:]}")
        time.sleep(0.1)  # a daemon that is not there yet has no event to wait for


def _remove_all(running: Docker) -> None:
    """What a test left behind: without it dockerd would wait for these containers."""
    left = running("ps", "--all", "--quiet").stdout.split()
    if left:
        sys.stderr.write(running("rm", "--force", *left).stdout)
