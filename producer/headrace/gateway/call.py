"""What a request asks of the fleet: class, deadline, tenant and trace by its headers, given up when its client goes.

Knows the headers and the connection. Does not know the APIs.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from headrace_contracts import ModelSpec, Priority, Task
from headrace_contracts.tracing import Tracing
from litestar.params import Parameter
from litestar.types import Receive

from headrace.embeddings import Embeddings
from headrace.errors import ConnectionFailed, DeadlineExceeded, HeadraceError, InputError
from headrace.gateway.body import Body
from headrace.gateway.fleet import Fleet
from headrace.gateway.limits import Limits
from headrace.gateway.metrics import Metrics
from headrace.gateway.outcomes import OK, outcomes
from headrace.gateway.problems import Kind, Refused
from headrace.gateway.request_id import request_id
from headrace.options import DEFAULT_TIMEOUT_S
from headrace.scores import Scores
from headrace.traceparent import check_traceparent

T = TypeVar("T")
Found = TypeVar("Found", Embeddings, Scores)

# Of what this file reads, by the names that it has here.
HEADERS = MappingProxyType({"priority": "X-Headrace-Priority", "timeout_ms": "X-Headrace-Timeout-Ms"})
MEANT = MappingProxyType({"priority": "send online or batch", "timeout_ms": "send a whole number of milliseconds"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a handler asks the fleet through.

    Attributes:
        fleet: whom.
        limits: of a request.
        metrics: where texts and tokens are counted.
        receive: tells when the client has gone.
        priority: online or batch.
        timeout_s: seconds that the call may take.
        tenant: on whose behalf.
        traceparent: W3C trace context of the caller; None where a span of ours goes on with it.
        request_id: name of the request.
    """

    fleet: Fleet
    limits: Limits
    metrics: Metrics
    receive: Receive
    priority: Priority
    timeout_s: float
    tenant: str | None
    traceparent: str | None
    request_id: str | None

    async def embed(self, spec: ModelSpec, texts: Sequence[str], **options: Any) -> Embeddings:
        """Client.embed, strictly."""
        return await self._run(
            spec,
            "embed",
            len(texts),
            self.fleet.client.embed(texts, model=spec.name, strict=True, **self._common, **options),
        )

    async def embed_ids(self, spec: ModelSpec, token_ids: Sequence[Sequence[int]], **options: Any) -> Embeddings:
        """Client.embed_ids, strictly."""
        return await self._run(
            spec,
            "embed",
            len(token_ids),
            self.fleet.client.embed_ids(token_ids, model=spec.name, strict=True, **self._common, **options),
        )

    async def score(self, spec: ModelSpec, query: str, documents: Sequence[str], **options: Any) -> Scores:
        """Client.score, strictly."""
        return await self._run(
            spec,
            "score",
            len(documents),
            self.fleet.client.score(query, documents, model=spec.name, strict=True, **self._common, **options),
        )

    @property
    def _common(self) -> dict[str, Any]:
        """What all calls of the client take."""
        return {
            "priority": self.priority,
            "timeout": self.timeout_s,
            "tenant": self.tenant,
            "traceparent": self.traceparent,
            "request_id": self.request_id,
        }

    async def _run(self, spec: ModelSpec, task: Task, num_texts: int, work: Coroutine[Any, Any, Found]) -> Found:
        """Do the work, and count what became of it."""
        try:
            result = await self._explained(work)
        except (HeadraceError, Refused) as error:
            for outcome, count in outcomes(error, num_texts).items():
                self.metrics.texts.labels(self.priority, task, outcome).inc(count)
            raise
        self.metrics.texts.labels(self.priority, task, OK).inc(num_texts)
        self.metrics.truncated_texts.inc(len(result.truncated))
        self.metrics.tokenise_seconds.observe(result.usage.tokenize_ms / 1000)
        self.metrics.tokens.labels(spec.name, self.priority).inc(result.usage.tokens)
        return result

    async def _explained(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Do the work; where it failed for the state of this gateway, the error says so."""
        try:
            return await _while_connected(self.receive, work)
        except ConnectionFailed as error:
            if self.fleet.client.state != "closed":
                raise
            raise Refused(Kind.UNAVAILABLE, "this gateway is stopping: ask another one", retry_after_s=1) from error
        except DeadlineExceeded as error:
            if self.fleet.client.is_connected:
                raise
            raise Refused(Kind.UNAVAILABLE, str(error), retry_after_s=1) from error


async def provide_call(
    request: Body,
    fleet: Fleet,
    metrics: Metrics,
    priority: Annotated[
        Priority, Parameter(header=HEADERS["priority"], description="online is served first; batch waits for room")
    ] = "online",
    timeout_ms: Annotated[
        int | None, Parameter(header=HEADERS["timeout_ms"], ge=1, description="how long the answer may take")
    ] = None,
    traceparent: Annotated[str | None, Parameter(header="traceparent", description="W3C trace context")] = None,
) -> Call:
    """Read the headers.

    Raises:
        Refused: the timeout is longer than allowed.
    """
    limits: Limits = request.app.state.limits
    most = int(limits.max_timeout_s * 1000)
    if timeout_ms is not None and timeout_ms > most:
        name = HEADERS["timeout_ms"]
        raise Refused(Kind.MALFORMED, f"{name} is {timeout_ms}: at most {most}", field=name)
    default_s = min(DEFAULT_TIMEOUT_S[priority], limits.max_timeout_s)
    return Call(
        fleet=fleet,
        limits=limits,
        metrics=metrics,
        receive=request.receive,
        priority=priority,
        timeout_s=default_s if timeout_ms is None else timeout_ms / 1000,
        tenant=request.auth,
        traceparent=None if Tracing.found() is not None else _readable(traceparent),
        request_id=request_id(request.scope),
    )


def _readable(traceparent: str | None) -> str | None:
    """The trace context, or None for one that cannot be read: to be dropped, says the W3C, and no reason to refuse."""
    try:
        check_traceparent(traceparent)
    except InputError:
        return None
    return traceparent


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and give it up when the client goes: the fleet then drops it.

    Raises:
        Refused: the client has gone.
    """
    working = asyncio.ensure_future(work)
    going = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, going), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refused(Kind.CLIENT_GONE, "the client has gone")
    finally:
        going.cancel()
        if working.cancel():
            await asyncio.wait((working,))


async def _gone(receive: Receive) -> None:
    """Wait until the client closes its connection; the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
