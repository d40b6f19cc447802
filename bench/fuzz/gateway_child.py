"""The program that bodies.py starts: a gateway as users run it, in front of a fleet in its own memory.

It knows that the client can be had with a fleet of no servers. All else is what `headrace gateway` runs. It writes
HOST:PORT once it listens, and ends when its stdin does.
"""

import asyncio
import logging
import sys

from headrace.gateway import serve
from headrace.gateway.limits import Limits
from headrace.testing.fake_client import FakeClient

# Small enough to be exceeded by small requests.
_LIMITS = Limits(max_body_bytes=40_000, max_items=16, max_tokens=2000, max_timeout_s=6, max_body_s=5)


async def main() -> None:
    """Serve until stdin ends."""
    stop = asyncio.Event()
    # Of the same signature: `connect` of a client whose fleet is in memory.
    serve.Client = FakeClient  # type: ignore[misc]
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    ended.add_done_callback(lambda _: stop.set())
    config = serve.GatewayConfig(nats="memory", port=0, limits=_LIMITS, drain_s=1)
    await serve.serve(config, stop, lambda url: print(url.removeprefix("http://"), flush=True))


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
