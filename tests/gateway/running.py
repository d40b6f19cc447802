"""A gateway as a process of its own, as users run it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

_URL = re.compile(r"http://\S+:\d+")


@dataclass(frozen=True)
class Running:
    """A gateway that serves."""

    url: str
    process: "subprocess.Popen[str]"


@contextmanager
def gateway(nats: str, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run `headrace gateway` on a free port while the context lasts."""
    command = [sys.executable, "-m", "headrace", "gateway", "--port", "0", "--nats", nats, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}) as process:
        assert process.stderr is not None
        try:
            first = process.stderr.readline()
            found = _URL.search(first)
            assert found is not None, first + process.stderr.read()
            yield Running(found[0].rstrip(","), process)
        finally:
            process.terminate()
            process.wait(40)
            sys.stderr.write(process.stderr.read())  # pytest shows it if the test fails


def until_ready(url: str, status: int = 200) -> None:
    """Return once it is ready, or is no more: a worker says every two seconds that it is there."""
    while httpx.get(f"{url}/health/ready", timeout=60).status_code != status:
        pass
