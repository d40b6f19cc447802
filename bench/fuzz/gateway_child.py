"""The program that bodies.py starts: a gateway as users run it, in front of a fleet in its own memory.

It knows that the client can be had with a fleet of no servers. All else is what `headrace gateway` runs. It writes
HOST:PORT once it listens, and ends when its stdin does.
"""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

# As a program beside the others of its folder, not of a package.
sys.path[0] = str(Path(__file__).parents[1])

from headrace.gateway import serve  # noqa: E402 - the path comes first
from headrace.gateway.limits import Limits  # noqa: E402
from headrace.pairs import PairTokenizer  # noqa: E402
from headrace.published import Model  # noqa: E402
from headrace.tokens import TextTokenizer  # noqa: E402

from fuzz import kinds  # noqa: E402
from fuzz.echo import EchoClient  # noqa: E402

# Small enough to be exceeded by small requests.
_LIMITS = Limits(max_body_bytes=40_000, max_items=16, max_tokens=2000, max_timeout_s=6, max_body_s=5)


class _Connected(EchoClient):
    """Connects to nothing."""

    @classmethod
    async def connect(cls, *_: Any, max_call_tokens: int, **__: Any) -> EchoClient:  # type: ignore[override] # for serve
        spec = kinds.spec("wordpiece", max_length=64, max_chunk_tokens=256, max_chunk_items=8, prompt="query: ")
        rust = kinds.tokenizer("wordpiece")
        texts = TextTokenizer(rust, spec.max_length, include_prompt=spec.include_prompt)
        return await cls(Model(spec, texts, PairTokenizer(rust, spec)), max_call_tokens).open()


async def main() -> None:
    """Serve until stdin ends."""
    stop = asyncio.Event()
    vars(serve)["Client"] = _Connected
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    ended.add_done_callback(lambda _: stop.set())
    config = serve.GatewayConfig(nats="memory", port=0, limits=_LIMITS, drain_s=1)
    await serve.serve(config, stop, lambda url: print(url.removeprefix("http://"), flush=True))


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
