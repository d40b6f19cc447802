"""A gateway as a process of its own, as users run it."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue

import httpx

_URL = re.compile(r"http://\S+:\d+")
# Before it is asked again: asked without a pause it takes a core, and another one to answer.
PAUSE_S = 0.02


@dataclass(frozen=True)
class Running:
    """A gateway that serves, and the lines that it logs after its first."""

    url: str
    process: "subprocess.Popen[str]"
    lines: "SimpleQueue[str]" = field(default_factory=SimpleQueue)

    def line_with(self, text: str) -> str:
        """The next line that it logs with this in it."""
        while text not in (line := self.lines.get(timeout=20)):
            pass
        return line

    def drain(self) -> None:
        """Take in what it logs until it ends: a full pipe would hold it up."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            sys.stderr.write(line)  # pytest shows it if the test fails
            self.lines.put(line)


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
            running = Running(found[0].rstrip(","), process)
            draining = threading.Thread(target=running.drain)
            draining.start()
            try:
                yield running
            finally:
                process.terminate()
                process.wait(40)
                draining.join()
        finally:
            process.terminate()


def until_ready(url: str, status: int = 200) -> None:
    """Return once it is ready, or is no more: a worker says every two seconds that it is there."""
    with httpx.Client(base_url=url, timeout=60) as http:
        while http.get("/health/ready").status_code != status:
            time.sleep(PAUSE_S)


def until_metrics_have(http: httpx.Client, line: str) -> None:
    """Return once its page of metrics has this in it."""
    while line not in http.get("/metrics").text:
        time.sleep(PAUSE_S)
