"""`python -m economics.null_worker MODEL`: a worker process whose engine answers at once.

It knows flags and signals, and takes all else from the real worker: its pulls, its checks, its scheduler, its replies.
"""

import argparse
import asyncio
import signal
from collections.abc import Callable
from functools import partial

from economics.null_engine import NullEngine
from headrace_workers import WorkerConfig, event_loop, notify
from headrace_workers.lane import LoadedEngine
from headrace_workers.serve import serve
from headrace_workers.worker import Worker


async def serve_until_signal(
    load: Callable[[], LoadedEngine],
    config: WorkerConfig,
    ready_fd: int | None,
    on_ready: Callable[[Worker], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal cancels.

    Args:
        load: Gives the engine.
        config: Settings of the worker.
        ready_fd: Told when it is ready.
        on_ready: Called with the worker just before.
    """
    stop = asyncio.Event()

    def ready(worker: Worker) -> None:
        on_ready(worker)
        notify.ready(ready_fd)

    serving = asyncio.ensure_future(serve(load, config, stop, ready))

    def on_signal() -> None:
        if stop.is_set():
            serving.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await serving


def main() -> None:
    """Read the flags, which are spelt as the real worker's, and serve."""
    parser = argparse.ArgumentParser(description="Serve a model by an engine that answers at once.")
    parser.add_argument("model", help="directory, package or hub id whose checkpoint is read")
    parser.add_argument("--nats", required=True, help="URL of nats-server")
    parser.add_argument("--ready-fd", type=int, help="write a newline to this file descriptor once ready")
    parser.add_argument("--step-tokens", type=int, help="tokens of one step (as the real worker)")
    parser.add_argument("--budget-tokens", type=int, help="tokens pulled and not yet answered (as the real worker)")
    parser.add_argument("--max-chunk-tokens", type=int, help="tokens of one chunk (as the real worker)")
    flags = parser.parse_args()
    notify.check(flags.ready_fd)
    config = WorkerConfig(
        nats_url=flags.nats,
        step_tokens=flags.step_tokens,
        budget_tokens=flags.budget_tokens,
        max_chunk_tokens=flags.max_chunk_tokens,
    )
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(serve_until_signal(partial(NullEngine.load, flags.model), config, flags.ready_fd))


if __name__ == "__main__":
    main()
