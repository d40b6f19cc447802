"""The middle of every call: texts are tokenised, split, published and gathered, under one deadline.

Knows the order, and what to do when the fleet changed the model meanwhile; each word has a file of its own. Does not
know what the rows mean: the two calls of client.py do.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
from headrace_contracts import (
    Chunk,
    ErrorCode,
    ErrorReply,
    ModelSpec,
    Options,
    Priority,
    Reply,
    Task,
    Usage,
    encode_chunk,
    subjects,
)
from headrace_contracts.connection import Link
from headrace_contracts.queues import hand
from headrace_contracts.tracing import Tracing

from headrace.catalogue import Catalogue
from headrace.chunking import split
from headrace.errors import HeadraceError, InputError, ItemError, ModelChanged, from_code
from headrace.exchange import Exchange
from headrace.gather import Gathering
from headrace.options import CallOptions
from headrace.outgoing import Deadline, Outgoing
from headrace.pace import Pace
from headrace.published import Model
from headrace.result import Gathered
from headrace.spans import CallSpan
from headrace.tokens import NO_TOKENS, Tokenized

logger = logging.getLogger(__name__)

# Codes that say something about the texts of a chunk; the other chunks of the call are not concerned.
_ABOUT_THE_CHUNK = frozenset({ErrorCode.INVALID, ErrorCode.TOO_LONG, ErrorCode.NON_FINITE, ErrorCode.INTERNAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What the chunks of one call have in common on their way."""

    spec: ModelSpec
    priority: Priority
    tenant: str | None
    deadline: Deadline
    retries: int | None
    traceparent: str | None
    request_id: str
    is_named: bool
    span: CallSpan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A call that has begun: when, until when, as what, and in which span."""

    at_s: float
    deadline: Deadline
    request_id: str
    span: CallSpan | None


class Calls:
    """Runs the calls of one client."""

    def __init__(
        self,
        link: Link,
        catalogue: Catalogue,
        exchange: Exchange,
        client_id: str,
        tenant: str | None,
        max_tokens: int | None = None,
    ) -> None:
        self._link = link
        self._tenant = tenant
        self._catalogue = catalogue
        self._exchange = exchange
        self._client_id = client_id
        self._max_tokens = max_tokens
        self._turn = count()
        self._tracing = Tracing.found()

    async def run(
        self, model: str | None, options: CallOptions, tokenize: Callable[[Model], Awaitable[Tokenized]]
    ) -> Gathered:
        """Run one call.

        Args:
            model: its name; None takes the only one there is for the task.
            options: of the call.
            tokenize: turns what the caller gave into the model's token ids.

        Raises:
            HeadraceError: see Client.embed and Client.score.
        """
        request_id = options.request_id or secrets.token_hex(12)
        span = None if self._tracing is None else self._span(self._tracing, options, request_id)
        began = _Begun(
            at_s=time.perf_counter(), deadline=Deadline.after(options.timeout_s), request_id=request_id, span=span
        )
        try:
            gathered = await self._insist(model, options, tokenize, began)
        except BaseException as error:
            if isinstance(error, HeadraceError):
                error.request_id = began.request_id
                logger.debug("call failed: %s", error, extra={"request_id": began.request_id})
            if span is not None:
                span.failed(error)
            raise
        else:
            if span is not None:
                span.done(gathered.usage, len(gathered.errors))
            return gathered
        finally:
            if span is not None:
                span.end()

    def _span(self, tracing: Tracing, options: CallOptions, request_id: str) -> CallSpan:
        told: dict[str, str | int] = {"headrace.request_id": request_id, "headrace.class": options.priority}
        if (tenant := options.tenant or self._tenant) is not None:
            told["headrace.tenant"] = tenant
        return CallSpan(tracing, options.task, options.traceparent, told)

    async def _insist(
        self,
        model: str | None,
        options: CallOptions,
        tokenize: Callable[[Model], Awaitable[Tokenized]],
        began: "_Begun",
    ) -> Gathered:
        chosen = await self._model(model, options.task, began.deadline)
        if began.span is not None:
            began.span.served_by(chosen.spec.name)
        # A caller may give one name to many calls, and ids of chunks are unique.
        is_ours = options.request_id is None
        try:
            return await self._run(chosen, options, tokenize, began, is_ours=is_ours)
        except ModelChanged:
            # The fleet moved to another revision since the model was read: tokenise for that one.
            self._catalogue.forget(chosen.spec.name)
            anew = await self._model(chosen.spec.name, options.task, began.deadline)
            return await self._run(anew, options, tokenize, began, is_ours=False)

    async def _model(self, name: str | None, task: Task, deadline: Deadline) -> Model:
        """The model, read from the fleet if this client has not seen it yet."""
        try:
            async with asyncio.timeout_at(deadline.loop_s):
                await self._link.up.wait()
                return await self._catalogue.model(name, task)
        except TimeoutError:
            lost = "" if self._link.up.is_set() else ": the connection to nats-server was lost; see whether it runs"
            raise from_code(ErrorCode.EXPIRED, f"the model could not be read from the fleet in time{lost}") from None

    async def _run(
        self,
        model: Model,
        options: CallOptions,
        tokenize: Callable[[Model], Awaitable[Tokenized]],
        began: "_Begun",
        *,
        is_ours: bool,
    ) -> Gathered:
        """Tokenise, split, publish, gather.

        Args:
            model: to use.
            options: of the call.
            tokenize: see `run`.
            began: when and as what.
            is_ours: whether the request's id is ours, and no chunk has been named after it.
        """
        spec, wanted = model.spec, options.for_model(model.spec)
        tokenizing_s = time.perf_counter()
        tokenized = await tokenize(model)
        tokenize_ms = _since_ms(tokenizing_s)
        wanted = replace(wanted, skip=tokenized.skip)
        gathering = Gathering(len(tokenized.sequences), wanted.dim or spec.dim, wanted.dtype)
        cut = np.flatnonzero(tokenized.truncated).tolist()
        sent = np.flatnonzero(tokenized.num_tokens).tolist()
        # A worker would refuse the whole chunk for one of them.
        for index in np.flatnonzero(tokenized.num_tokens == 0).tolist():
            gathering.fail(index, ItemError(ErrorCode.INVALID, NO_TOKENS))
        if not options.truncate:
            for index in cut:
                text = f"{tokenized.full_lengths[index]} tokens: max_length of {spec.name} is {spec.max_length}"
                gathering.fail(index, ItemError(ErrorCode.TOO_LONG, text))
            sent = sorted(set(sent) - set(cut))
        lengths = [len(tokenized.sequences[index]) for index in sent]
        if self._max_tokens is not None and (total := sum(lengths)) > self._max_tokens:
            raise InputError(f"the call comes to {total} tokens: at most {self._max_tokens} are allowed, so split it")
        runs = split(lengths, max_tokens=spec.max_chunk_tokens, max_items=spec.max_chunk_items)

        call = Call(
            spec=spec,
            priority=options.priority,
            tenant=options.tenant or self._tenant,
            deadline=began.deadline,
            retries=options.retries,
            traceparent=options.traceparent,
            request_id=began.request_id,
            is_named=not is_ours,
            span=began.span,
        )
        # With an id of ours the ids of job and chunks are made of it, so that it takes no header.
        stem = began.request_id if is_ours else secrets.token_hex(12)
        job = stem if len(runs) > 1 else None

        async def ask(seq: int) -> Usage | None:
            indices = sent[runs[seq].start : runs[seq].stop]
            chunk = _chunk(stem, tokenized, indices, spec, options.task, wanted)
            if job is not None:
                chunk = replace(chunk, id=f"{stem}-{seq}", job=job, seq=seq)
            return await self._ask(call, chunk, indices, gathering)

        await _all(ask, len(runs), options.priority)
        truncated = tuple(cut) if options.truncate else ()
        return gathering.finish(
            truncated, total_ms=_since_ms(began.at_s), tokenize_ms=tokenize_ms, request_id=began.request_id
        )

    async def _ask(self, call: Call, chunk: Chunk, indices: list[int], gathering: Gathering) -> Usage | None:
        """Publish one chunk and take in its reply; tells what it cost, if it ran."""
        routes = self._routes(call)
        # Somebody waits for a query; of a larger call, one late chunk among many would be the rule.
        may_hedge = call.priority == "online" and call.spec.shards > 1 and chunk.job is None
        body = encode_chunk(chunk)
        span = None
        if call.span is not None:
            span = call.span.chunk(chunk, body, routes[0], call.priority, call.request_id)
        reply = await self._sent(
            Outgoing(
                model=chunk.model,
                routes=routes,
                body=body,
                chunk_id=chunk.id,
                tokens=chunk.num_tokens,
                priority=call.priority,
                deadline=call.deadline,
                tenant=call.tenant,
                retries=call.retries,
                traceparent=call.traceparent if span is None else span.traceparent or call.traceparent,
                request_id=call.request_id if call.is_named else None,
                span=span,
                hedge_route=routes[1] if may_hedge else None,
            )
        )
        if isinstance(reply, Reply):
            gathering.put(indices, reply)
            return reply.usage
        if reply.code in _ABOUT_THE_CHUNK:
            for index in indices:
                gathering.fail(index, ItemError(reply.code, reply.text))
        else:
            raise from_code(reply.code, reply.text, reply.retry_ms)
        return None

    async def _sent(self, chunk: Outgoing) -> Reply | ErrorReply:
        if (span := chunk.span) is None:
            return await self._exchange.ask(chunk)
        try:
            reply = await self._exchange.ask(chunk)
        except BaseException as error:
            span.failed(error)
            raise
        else:
            span.replied(reply)
            return reply
        finally:
            span.end()

    def _routes(self, call: Call) -> tuple[str, ...]:
        model, shards = call.spec.name, call.spec.shards
        if call.priority == "batch":
            return (subjects.batch(model, self._client_id),)
        first = next(self._turn)
        # The other queue last: it is for when the first is full, and a server that is gone has neither.
        queues = hand(call.tenant, call.spec.queues)
        return tuple(subjects.online(model, (first + n) % shards, queue) for queue in queues for n in range(shards))


async def _all(ask: Callable[[int], Coroutine[None, None, Usage | None]], num_chunks: int, priority: Priority) -> None:
    """Ask for each chunk; one failure fails the call, and the other chunks are given up for it."""
    if num_chunks == 1:  # a query: a task of its own would be a good part of what it takes
        await ask(0)
        return
    # What waits in the batch class is in nobody's way.
    pace = Pace() if priority == "online" else None
    try:
        async with asyncio.TaskGroup() as tasks:
            for seq in range(num_chunks):
                if pace is None:
                    tasks.create_task(ask(seq))
                else:
                    await pace.take_place()
                    tasks.create_task(pace.send(partial(ask, seq)))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _since_ms(then_s: float) -> float:
    return (time.perf_counter() - then_s) * 1000


def _chunk(
    chunk_id: str, tokenized: Tokenized, indices: list[int], spec: ModelSpec, task: Task, options: Options
) -> Chunk:
    sequences = [tokenized.sequences[index] for index in indices]
    segment_ids = tokenized.segment_ids
    return Chunk(
        id=chunk_id,
        task=task,
        model=spec.name,
        fingerprint=spec.fingerprint,
        lengths=np.fromiter(map(len, sequences), np.uint32, len(sequences)),
        token_ids=np.concatenate(sequences),
        segment_ids=None if segment_ids is None else np.concatenate([segment_ids[index] for index in indices]),
        options=options,
    )
