"""How a chunk is answered and its message settled: reply first, then ack.

Knows the reply subjects and the dead letters. Does not know the scheduler or the device. Every message that comes in
leaves through here or through a nak: each gets a reply or a redelivery, never silence.
"""

import asyncio
import contextlib
import logging
from typing import Any, cast

import numpy as np
from headrace_contracts import (
    BadItem,
    Chunk,
    DecodeError,
    ErrorCode,
    ErrorReply,
    ModelSpec,
    Reply,
    Usage,
    encode_reply,
    headers,
    limits,
    subjects,
)
from headrace_contracts.api import in_words
from headrace_contracts.messages import numpy_dtype, row_elements
from headrace_engine import OutputOptions, finish, finish_scores
from headrace_engine.output import ScoreActivation
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from numpy.typing import NDArray

from headrace_workers.counters import Counters
from headrace_workers.delivery import Delivery
from headrace_workers.spans import Spans
from headrace_workers.work import Refused, Work, request_id

logger = logging.getLogger(__name__)

_MAX_TEXT = 500
_LATER_S = 1.0
_NO_ROW = "the model gave a row that is not finite or has no direction"
_NO_SCORE = "the model gave a score that is not finite"


class Answers:
    """Sends replies and settles the messages they answer.

    Attributes:
        num_without_room: results of bulk jobs that the broker has no room for yet.
    """

    def __init__(
        self,
        nats: NatsClient,
        spec: ModelSpec,
        worker: str,
        counters: Counters,
        activation: ScoreActivation | None = None,
        spans: Spans | None = None,
    ) -> None:
        """Take what answers are made of.

        Args:
            nats: the connection.
            spec: of the model.
            worker: this worker's name.
            counters: what it did so far.
            activation: what makes a score of a row; None for models without scores.
            spans: where to trace; None does not.
        """
        self._nats = nats
        self._jetstream = nats.jetstream()
        self._spec = spec
        self._worker = worker
        self._counters = counters
        self._activation = activation
        self._spans = spans
        self._hurry = asyncio.Event()
        self.num_without_room = 0

    async def result(self, work: Work, rows: NDArray[np.float32], usage: Usage) -> None:
        """Answer with the rows [m, dim] of the work's runnable sequences."""
        chunk, dtype = work.chunk, work.chunk.options.dtype
        if self._spans is not None:
            self._spans.ran(work, usage)
        finished, is_good = self._finish(chunk, rows)
        dim = 1 if chunk.task == "score" else chunk.options.dim or self._spec.dim
        bad = work.bad
        if not is_good.all():
            text = _NO_SCORE if chunk.task == "score" else _NO_ROW
            bad += tuple(BadItem(int(i), ErrorCode.NON_FINITE, text) for i in work.runnable[~is_good])
        full = finished
        if bad:
            full = np.zeros((chunk.num_sequences, row_elements(dtype, dim)), numpy_dtype(dtype))
            full[work.runnable] = finished
            bad = tuple(BadItem(item.index, item.code, item.text[: limits.MAX_BAD_TEXT]) for item in bad)
        reply = Reply(id=chunk.id, rows=full, dim=dim, dtype=dtype, bad=bad, usage=usage, worker=self._worker)
        if await self._answer(work.delivery, work.envelope.reply_to, encode_reply(reply), work.envelope.msg_id):
            self._counters.answer(work, bad, usage)

    def _finish(self, chunk: Chunk, rows: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The rows as the chunk asks for them, and which of them are good.

        work.py let only tasks and dtypes of the spec pass, and a spec names only what the engine can finish.
        """
        options = chunk.options
        if chunk.task == "score":
            return finish_scores(rows, cast("ScoreActivation", self._activation), raw=options.raw)
        return finish(rows, OutputOptions(dim=options.dim, dtype=options.dtype, normalize=options.normalize))

    async def refuse(self, delivery: Delivery, refused: Refused) -> None:
        """Answer with an error code; keep the message in the dead letters first if it is poison."""
        text = refused.text[:_MAX_TEXT]
        self._tell(delivery, refused, text)
        reply = ErrorReply(id=refused.chunk_id, code=refused.code, text=text, worker=self._worker)
        # A message that does not even say where its reply goes can only be kept; nobody can be told.
        reply_to = None
        with contextlib.suppress(DecodeError):
            reply_to = headers.reply_to(delivery.headers)
        poison = refused if refused.is_poison else None
        if await self._answer(delivery, reply_to, encode_reply(reply), poison=poison):
            self._counters.refuse(delivery, refused.task, refused.code)

    def _tell(self, delivery: Delivery, refused: Refused, text: str) -> None:
        """Log it, with all that leads to its call; what the fleet is too slow for, or callers give up, is no news."""
        is_news = refused.code not in {ErrorCode.EXPIRED, ErrorCode.CANCELLED}
        level = logging.WARNING if refused.is_poison else logging.INFO if is_news else logging.DEBUG
        if logger.isEnabledFor(level):
            facts = {
                "request_id": request_id(delivery, refused.chunk),
                "chunk_id": refused.chunk_id,
                "model": self._spec.name,
                "tenant": headers.name_in(delivery.headers, headers.TENANT),
                "code": str(refused.code),
                "dead_letter": refused.is_poison,
            }
            logger.log(level, "refused chunk %r: %s: %s", refused.chunk_id, refused.code, text, extra=facts)
        if self._spans is not None:
            self._spans.refused(delivery, refused)

    def stop_waiting(self) -> None:
        """Wait for room in the results no longer: the worker must end."""
        self._hurry.set()

    async def _answer(
        self,
        delivery: Delivery,
        reply_to: str | None,
        body: bytes,
        msg_id: str | None = None,
        *,
        poison: Refused | None = None,
    ) -> bool:
        """Keep, reply, ack, in this order. If the broker cannot be told, the message is left to its redelivery."""
        try:
            if poison is not None:
                await self._keep(delivery, poison)
            if reply_to is not None and not await self._reply(reply_to, body, msg_id):
                await delivery.nak(_LATER_S)
                self._counters.given_back += 1
                return False
            await delivery.ack()
        except (NatsError, OSError) as error:
            logger.warning("could not answer, the broker will redeliver: %s", in_words(error))
            delivery.abandon()
            self._counters.abandoned += 1
            return False
        return True

    async def _reply(self, reply_to: str, body: bytes, msg_id: str | None) -> bool:
        """Send the reply; whether it is out."""
        if not reply_to.startswith(f"{subjects.RESULTS_ROOT}."):
            await self._nats.publish(reply_to, body)
            return True
        # A result must be stored before its chunk is acked; its id makes a second copy of it harmless. An error has no
        # id: it must not stand in the way of the result of a later try.
        sent = None if msg_id is None else {headers.MSG_ID: msg_id}
        is_kept = False
        try:
            while not self._hurry.is_set():
                try:
                    await self._jetstream.publish(reply_to, body, headers=sent)
                except (NatsError, OSError) as error:
                    # Running the chunk again would not make room. It stays in hand, so this worker pulls less. Of many
                    # that wait, for hours perhaps, the first one says so, once.
                    level = logging.DEBUG if self.num_without_room else logging.WARNING
                    logger.log(level, "a result cannot be stored yet: %s", in_words(error))
                    self.num_without_room += not is_kept
                    is_kept = True
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LATER_S):
                            await self._hurry.wait()
                else:
                    return True
            return False
        finally:
            self.num_without_room -= is_kept

    async def _keep(self, delivery: Delivery, poison: Refused) -> None:
        reason = f"{poison.code}: {poison.text[:_MAX_TEXT]}".replace("\r", " ").replace("\n", " ")
        kept = headers.passed_on(delivery.headers) | {
            headers.REASON: reason,
            headers.DELIVERIES: str(delivery.count),
            # The same message is kept once, however often it comes.
            headers.MSG_ID: delivery.place,
        }
        await self._jetstream.publish(subjects.dead(self._spec.name, delivery.priority), delivery.body, headers=kept)
        self._counters.keep(delivery)
