"""A client whose fleet is in this process: each chunk is checked as a worker would check it, and answered with zeros.

It knows the client's parts, which are the real ones but for the connection, and a worker's checks, which are the real
ones, too. It does not know texts.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Self

import numpy as np
from headrace import Client
from headrace.calls import Calls
from headrace.catalogue import Catalogue
from headrace.published import Model
from headrace.testing.memory_nats import MemoryNats
from headrace_contracts import Chunk, Envelope, ModelSpec, Reply, Usage, encode_chunk, encode_reply, subjects
from headrace_contracts.connection import Link
from headrace_workers.delivery import Delivery
from headrace_workers.work import Refused, accept, prepare
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fuzz.target import Wrong

_ACK = "$JS.ACK.HR_ONLINE_m_0_0.workers.1.5.7.1700000000000000000.3"
_PUB_ACK = b'{"stream":"HR_ECHO","seq":1}'


class Echo(MemoryNats):
    """The connection.

    Attributes:
        wrong: What a worker found wrong with a chunk.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super(MemoryNats, self).__init__()
        self._spec = spec
        self._is_closed = False
        self._deliver = None
        self._replies = {}
        self._deliveries = set()
        self.wrong: list[str] = []

    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Callable[[Msg], Awaitable[None]] | None = None,
        *limits: Any,
        **more: Any,
    ) -> Subscription:
        """Take the client's inbox; nothing comes of other subjects."""
        if subject.startswith(f"{subjects.INBOX_ROOT}."):
            return await super().subscribe(subject, queue, cb, *limits, **more)
        return Subscription(self, 2, subject, queue, cb, *limits, **more)

    def _answer(self, chunk: Chunk, envelope: Envelope, ack_to: str) -> None:
        self._check(chunk, envelope)
        self._send(ack_to, _PUB_ACK)
        dim = chunk.options.dim or self._spec.dim
        rows = np.zeros((chunk.num_sequences, dim), "<f4")
        usage = Usage(tokens=chunk.num_tokens, queue_ms=0, run_ms=0, batch_tokens=chunk.num_tokens)
        reply = Reply(id=chunk.id, rows=rows, dim=dim, dtype="f32", bad=(), usage=usage, worker="echo")
        self._send(envelope.reply_to, encode_reply(reply))

    def _check(self, chunk: Chunk, envelope: Envelope) -> None:
        message = Msg(
            self, subject="hr.online.m.0.0", reply=_ACK, data=encode_chunk(chunk), headers=envelope.to_headers()
        )
        try:
            work = accept(Delivery(message, "online", lambda _: None), self._spec, max_deliveries=5, now_ms=0)
        except Refused as refused:
            self.wrong.append(f"a worker refuses what the client made: {refused.code}: {refused.text}")
            return
        # That a prompt is all that is left of a text is for a worker to say.
        bad = [item for item in work.bad if "opt.skip" not in item.text]
        self.wrong += [f"a worker takes an item for bad that the client made: {item}" for item in bad]
        if len(work.runnable):
            prepare((work,))


class _Only:
    """The one model that is published."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def specs(self) -> list[ModelSpec]:
        return [self._model.spec]

    async def model(self, name: str) -> Model | None:
        return self._model if name == self._model.spec.name else None


class EchoClient(Client):
    """The client."""

    def __init__(self, model: Model, max_call_tokens: int) -> None:
        """Serve one model."""
        link, client_id = Link(), secrets.token_hex(8)
        self.echo = Echo(model.spec)
        super().__init__(self.echo, link, client_id, subjects.inbox(client_id), None, None, max_call_tokens)
        self._catalogue = Catalogue(_Only(model))
        self._calls = Calls(link, self._catalogue, self._exchange, client_id, None, max_call_tokens)
        link.up.set()

    async def open(self) -> Self:
        """Hear answers."""
        await self._exchange.open()
        return self

    def check(self) -> None:
        """See what the workers found.

        Raises:
            Wrong: Something.
        """
        if self.echo.wrong:
            raise Wrong(self.echo.wrong[0])
