"""`python -m economics.bare_echo URL`: pulls messages from a NATS stream, and answers each with what it brought.

It knows nats-py alone: it is what a worker is without anything of a worker. See bare.py.
"""

import asyncio
import json
import sys

import nats
from headrace_workers import event_loop
from nats.aio.msg import Msg

NATS_STREAM, SUBJECT, CONSUMER = "BARE", "bare.calls", "bare"
REPLY_TO = "Reply-To"
_PULL = {"batch": 1_000_000, "expires": 3600 * 10**9}


async def serve(url: str) -> None:
    """Answer until the process is ended."""
    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name=NATS_STREAM, subjects=[SUBJECT], storage="memory", retention="workqueue")
    await jetstream.add_consumer(NATS_STREAM, durable_name=CONSUMER, ack_policy="explicit", mem_storage=True)

    async def answer(message: Msg) -> None:
        if message.headers and REPLY_TO in message.headers:
            await connection.publish(message.headers[REPLY_TO], message.data)
            await message.ack()

    inbox = connection.new_inbox()
    await connection.subscribe(inbox, cb=answer)
    pull = f"$JS.API.CONSUMER.MSG.NEXT.{NATS_STREAM}.{CONSUMER}"
    await connection.publish(pull, json.dumps(_PULL).encode(), reply=inbox)
    await connection.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(serve(sys.argv[1]))
