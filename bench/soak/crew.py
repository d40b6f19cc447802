"""All that runs in a soak: nats-server, workers, a gateway, an exporter, each a process as operators start it.

It knows their flags and where each shows its page. It does not know who calls.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace import local
from online import gateway_process, web_process
from online.web_process import free_port

from soak.watch import Watched

_EXPORTER_EVERY_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What runs.

    Attributes:
        url: Of nats-server.
        gateway_port: On loopback.
        processes: By name, to be watched.
        workers: Where the workers among them have their pages.
    """

    url: str
    gateway_port: int
    processes: dict[str, Watched]
    workers: list[str]


@asynccontextmanager
async def running(model: str, *, workers: int, threads: int, work: Path) -> AsyncIterator[Crew]:
    """Run all of it while the context lasts.

    Args:
        model: As the engine takes it.
        workers: How many.
        threads: Of each.
        work: Folder for the broker's store and for logs.

    Raises:
        LocalFailed: nats-server or a worker did not start.
        ProcessFailed: The gateway or the exporter did not.
    """
    async with AsyncExitStack() as stack:
        server = stack.enter_context(local.server(work / "store"))
        processes = {"nats-server": Watched(server.process.pid)}
        addresses = []
        for number in range(1, workers + 1):
            addresses.append(address := f"127.0.0.1:{free_port()}")
            flags = ("--monitor", address, "--threads", str(threads), "--no-calibration")
            worker = local.worker(model, server.url, *flags, log=work / f"worker-{number}.log")
            processes[f"worker {number}"] = Watched(stack.enter_context(worker).pid, address)
        gateway = await stack.enter_async_context(gateway_process.running(server.url))
        processes["gateway"] = Watched(gateway.pid, f"127.0.0.1:{gateway.port}")
        listen = f"127.0.0.1:{(port := free_port())}"
        asking = ("--nats", server.url, "--listen", listen, "--every", str(_EXPORTER_EVERY_S))
        exporter = await stack.enter_async_context(web_process.running(port, "exporter", *asking))
        processes["exporter"] = Watched(exporter.pid, listen)
        yield Crew(url=server.url, gateway_port=gateway.port, processes=processes, workers=addresses)
