"""`python -m survival.worker MODEL`: a worker process that can be made ill, and that leaves a ledger.

It knows flags, and takes all else from the real worker: its pulls, its checks, its scheduler, its replies, its health.
"""

import argparse
import asyncio
import logging
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from economics.null_worker import serve_until_signal
from headrace_contracts.credentials import Credentials
from headrace_workers import WorkerConfig, event_loop, notify
from headrace_workers.errors import WorkerError
from headrace_workers.health import Limits
from headrace_workers.monitor import monitored
from headrace_workers.pulse import Pulse
from headrace_workers.spec import served_name
from headrace_workers.status import status
from headrace_workers.worker import Worker

from survival.ailing_engine import AilingEngine
from survival.ledger import Ledger

logger = logging.getLogger("survival.worker")


def _parser() -> argparse.ArgumentParser:
    """Flags that the real worker has are spelt as there."""
    parser = argparse.ArgumentParser(description="Serve a model by hashes of token ids, unless ill.")
    add = parser.add_argument
    add("model", help="directory, package or hub id whose checkpoint is read")
    add("--nats", required=True, help="URL of nats-server, or several with commas between")
    add("--access", type=Path, help="access file of its user (default: it needs none)")
    add("--worker", help="its own name (default: of host and process)")
    add("--ready-fd", type=int, help="write a newline to this file descriptor once ready")
    add("--tokens-per-s", type=float, help="how fast at most (default: as fast as it goes)")
    add("--step-tokens", type=int, default=2048, help="tokens of one step (%(default)s)")
    add("--max-chunk-tokens", type=int, help="tokens of one chunk (default: half a step)")
    add("--shards", type=int, default=1, help="servers that online work is spread over (%(default)s)")
    add("--placement", default="", help="tag of the server of each shard, with commas between")
    add("--queues", type=int, default=4, help="online queues of a shard (%(default)s)")
    add("--replicas", type=int, default=1, help="copies of the NATS streams on disk (%(default)s)")
    add("--online-ack-wait", type=float, default=10, help="seconds to a redelivery (%(default)s)")
    add("--batch-ack-wait", type=float, default=60, help="seconds to a redelivery (%(default)s)")
    add("--drain-timeout", type=float, default=30, help="seconds a drain may take before it gives work back")
    add("--max-deliveries", type=int, default=10, help="a chunk that came more often is poison (%(default)s)")
    add("--max-step-s", type=float, default=120, help="seconds of a step until it counts as hung (%(default)s)")
    add("--monitor", help="HOST:PORT where health is told; without it nobody hears of a step that hangs")
    add("--ailments", type=Path, help="file that makes it ill (default: nothing does)")
    add("--ledger", type=Path, help="file to say at the end what became of all that came")
    return parser


def _config(flags: argparse.Namespace) -> WorkerConfig:
    named = {} if flags.worker is None else {"worker": flags.worker}
    return WorkerConfig(
        nats_url=flags.nats,
        access=None if flags.access is None else Credentials.read(flags.access),
        step_tokens=flags.step_tokens,
        max_chunk_tokens=flags.max_chunk_tokens,
        shards=flags.shards,
        placement=WorkerConfig.read_placement(flags.placement),
        queues=flags.queues,
        replicas=flags.replicas,
        online_ack_wait_s=flags.online_ack_wait,
        batch_ack_wait_s=flags.batch_ack_wait,
        drain_timeout_s=flags.drain_timeout,
        max_deliveries=flags.max_deliveries,
        max_step_s=flags.max_step_s,
        monitor=WorkerConfig.read_monitor(flags.monitor),
        **named,
    )


class _Shift:
    """One worker's life, of which a ledger is left."""

    def __init__(self, flags: argparse.Namespace, config: WorkerConfig) -> None:
        self._flags = flags
        self._config = config
        self._worker: Worker | None = None
        self._pulse = None if config.monitor is None else Pulse(Limits(step_s=config.max_step_s))

    def run(self) -> int:
        """Serve until told to stop; returns the exit code, which is the real worker's."""
        failure = ""
        try:
            with ExitStack() as stack:
                if self._config.monitor is not None and self._pulse is not None:
                    name = served_name(self._config, self._flags.model)
                    stack.enter_context(monitored(self._config.monitor, name, self._pulse))
                stack.enter_context(asyncio.Runner(loop_factory=event_loop.factory())).run(self._serve())
        except WorkerError as error:
            failure = str(error)
            logger.critical("%s", error)
        except BaseException as error:
            failure = repr(error)
            raise
        finally:
            if self._worker is not None and self._flags.ledger is not None:
                # What a ledger has no place for does not matter.
                found = status(self._worker, name=self._worker.name, version="", uptime_s=0.0)
                ledger = Ledger.of(found, abandoned=self._worker.counters.abandoned, failure=failure)
                ledger.write(self._flags.ledger)
        return 1 if failure else 0

    async def _serve(self) -> None:
        pulsing = None if self._pulse is None else asyncio.ensure_future(self._pulse.run())
        load = partial(AilingEngine.load, self._flags.model, self._flags.tokens_per_s, self._flags.ailments)
        try:
            await serve_until_signal(load, self._config, self._flags.ready_fd, self._begin)
        finally:
            if pulsing is not None:
                pulsing.cancel()

    def _begin(self, worker: Worker) -> None:
        self._worker = worker
        if self._pulse is not None:
            self._pulse.begin(worker)


def main() -> None:
    """Read the flags and serve."""
    flags = _parser().parse_args()
    notify.check(flags.ready_fd)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    sys.exit(_Shift(flags, _config(flags)).run())


if __name__ == "__main__":
    main()
