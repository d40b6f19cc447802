"""A nats-server and a worker, in processes of their own, on the cores that are theirs.

It knows how they are started. It does not know who calls.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from economics import processes
from economics.meter import Reading
from headrace import Client, local

from online.cores import Cores, on

_WARM_UP_CALLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What runs.

    Attributes:
        url: Of nats-server.
        server_pid: Its process.
        worker_pid: The worker's process.
    """

    url: str
    server_pid: int
    worker_pid: int

    @property
    def pids(self) -> dict[str, int]:
        """Processes by name."""
        return {"nats-server": self.server_pid, "worker": self.worker_pid}

    def reading(self) -> Reading:
        """The processor time of each up to now."""
        return Reading.of({name: (pid,) for name, pid in self.pids.items()})

    async def warm_up(self, text: str) -> None:
        """Let the worker meet some calls: the first ones of a process are slower than any after them."""
        async with await Client.connect(self.url) as client:
            for _ in range(_WARM_UP_CALLS):
                await client.embed(text)


@contextmanager
def fleet(model: Path, cores: Cores, *options: str) -> Iterator[Fleet]:
    """Run one while the context lasts.

    Args:
        model: Directory.
        cores: Who computes where.
        options: More flags of the worker.
    """
    own = ("--threads", str(len(cores.device)), "--no-calibration")
    with TemporaryDirectory(prefix="headrace-bench-") as logs, ExitStack() as stack:
        with on(cores.others):
            server = stack.enter_context(local.server())
        with on(cores.device):
            worker = local.worker(str(model), server.url, *own, *options, log=Path(logs) / "worker.log")
            process = stack.enter_context(worker)
        yield Fleet(url=server.url, server_pid=server.process.pid, worker_pid=process.pid)


@contextmanager
def null_fleet(model: Path) -> Iterator[Fleet]:
    """The same with an engine that answers at once, so that the message path is all there is, on any core.

    Args:
        model: Directory.
    """
    with local.server() as server, processes.null_worker(str(model), server.url) as process:
        yield Fleet(url=server.url, server_pid=server.process.pid, worker_pid=process.pid)
