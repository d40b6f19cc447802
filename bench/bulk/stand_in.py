"""`python -m bulk.stand_in MODEL`: a worker process that answers with hashes of token ids.

It knows flags, and takes all else from the real worker: its pulls, its checks, its scheduler, its replies.
"""

import argparse
import asyncio
import logging
import sys
from functools import partial

from economics.null_worker import serve_until_signal
from headrace_workers import WorkerConfig, event_loop, notify

from bulk.stand_in_engine import StandInEngine


def main() -> None:
    """Read the flags, which are spelt as the real worker's where it has them, and serve."""
    parser = argparse.ArgumentParser(description="Serve a model by hashes of token ids.")
    parser.add_argument("model", help="directory, package or hub id whose checkpoint is read")
    parser.add_argument("--nats", required=True, help="URL of nats-server")
    parser.add_argument("--ready-fd", type=int, help="write a newline to this file descriptor once ready")
    parser.add_argument("--tokens-per-s", type=float, help="how fast at most (default: as fast as it goes)")
    parser.add_argument("--step-tokens", type=int, default=16_384, help="tokens of one step (%(default)s)")
    parser.add_argument("--max-chunk-tokens", type=int, help="tokens of one chunk (as the real worker)")
    parser.add_argument("--batch-ack-wait", type=float, default=60, help="seconds to a redelivery (%(default)s)")
    flags = parser.parse_args()
    notify.check(flags.ready_fd)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    config = WorkerConfig(
        nats_url=flags.nats,
        step_tokens=flags.step_tokens,
        max_chunk_tokens=flags.max_chunk_tokens,
        batch_ack_wait_s=flags.batch_ack_wait,
    )
    load = partial(StandInEngine.load, flags.model, flags.tokens_per_s)
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(serve_until_signal(load, config, flags.ready_fd))


if __name__ == "__main__":
    main()
