"""SyncClient: the same client for programs without an event loop.

Knows how to run Client on an event loop in a thread of its own. Usable from many threads at once.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace_contracts import Dtype, ModelSpec, Priority
from headrace_contracts.credentials import Credentials

from headrace.batches import cut
from headrace.client import Client, State
from headrace.conveyor import convey_from_thread
from headrace.embeddings import Embeddings
from headrace.errors import ConnectionFailed
from headrace.hedging import Hedging
from headrace.options import check_count
from headrace.scores import Scores
from headrace.texts import check_source
from headrace.token_ids import IdSequence

T = TypeVar("T")


class SyncClient:
    """Client for threads; `with SyncClient(url) as client`, or close it. Arguments and errors are those of Client.

    A program that forgets to close it still ends: the thread is a daemon.
    """

    def __init__(
        self,
        url: str = "nats://127.0.0.1:4222",
        *,
        timeout: float = 5,
        access: Credentials | str | Path | None = None,
        tenant: str | None = None,
        hedging: Hedging | None = None,
    ) -> None:
        """Connect; see Client.connect."""
        self._is_closed = False
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        # Not anyio's portal: the interpreter waits for its thread, so a script that forgets `close` would never end.
        self._thread = Thread(target=_live, args=(started,), name="headrace client", daemon=True)
        self._thread.start()
        self._loop, self._end = started.result()
        try:
            self._client = self._call(self._connect(url, timeout, access, tenant, hedging))
        except BaseException:
            self._stop()
            raise

    async def _connect(
        self,
        url: str,
        timeout: float,
        access: Credentials | str | Path | None,
        tenant: str | None,
        hedging: Hedging | None,
    ) -> Client:
        """The client that all calls go to; headrace.testing puts another here."""
        return await Client.connect(url, timeout=timeout, access=access, tenant=tenant, hedging=hedging)

    def close(self) -> None:
        """Close the connection and end the thread; calls that still wait fail. A second time does nothing."""
        if not self._is_closed:
            try:
                self._call(self._client.close())
            finally:
                self._stop()

    def _stop(self) -> None:
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the client's thread and wait here."""
        return self._finish(self._start(work))

    def _start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run it on the client's thread."""
        if self._is_closed:
            work.close()
            raise ConnectionFailed("the client is closed: open a new one")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _finish(self, future: "Future[T]") -> T:
        """Wait for it here."""
        try:
            return future.result()
        except CancelledError:
            raise ConnectionFailed("the client was closed meanwhile: open a new one") from None
        except BaseException:
            future.cancel()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def state(self) -> State:
        """What the connection is; see Client.state."""
        return "closed" if self._is_closed else self._client.state

    @property
    def is_connected(self) -> bool:
        """Whether the connection stands; see Client.is_connected."""
        return self.state == "connected"

    def wait_connected(self, timeout: float | None = 30) -> None:
        """Wait until the connection stands; see Client.wait_connected."""
        self._call(self._client.wait_connected(timeout))

    def models(self) -> list[ModelSpec]:
        """The models that the fleet has published; see Client.models."""
        return self._call(self._client.models())

    def embed(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Embed texts; see Client.embed."""
        return self._call(
            self._client.embed(
                texts,
                model=model,
                priority=priority,
                prompt_name=prompt_name,
                dim=dim,
                dtype=dtype,
                normalize=normalize,
                timeout=timeout,
                retries=retries,
                truncate=truncate,
                strict=strict,
                tenant=tenant,
                traceparent=traceparent,
                request_id=request_id,
            )
        )

    def embed_iter(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: Iterable[str],
        *,
        batch_size: int = 256,
        in_flight: int = 4,
        model: str | None = None,
        priority: Priority = "batch",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Generator[Embeddings, None, None]:
        """Embed texts while they are read: `for vectors in client.embed_iter(texts)`; see Client.embed_iter.

        Texts are read in the thread that asks for vectors, when none are there: a source that waits for its texts
        holds up vectors that come meanwhile.
        """
        check_source(texts, Iterable)
        check_count("batch_size", batch_size)
        check_count("in_flight", in_flight)
        embed = partial(
            self._client.embed,
            model=model,
            priority=priority,
            prompt_name=prompt_name,
            dim=dim,
            dtype=dtype,
            normalize=normalize,
            timeout=timeout,
            retries=retries,
            truncate=truncate,
            strict=strict,
            tenant=tenant,
            traceparent=traceparent,
            request_id=request_id,
        )
        return convey_from_thread(
            cut(texts, batch_size), lambda batch: self._start(embed(batch)), self._finish, in_flight
        )

    def embed_ids(  # noqa: PLR0913 - the options of a call are its public face
        self,
        token_ids: Iterable[IdSequence],
        *,
        model: str | None = None,
        priority: Priority = "online",
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Embed sequences of token ids; see Client.embed_ids."""
        return self._call(
            self._client.embed_ids(
                token_ids,
                model=model,
                priority=priority,
                dim=dim,
                dtype=dtype,
                normalize=normalize,
                timeout=timeout,
                retries=retries,
                strict=strict,
                tenant=tenant,
                traceparent=traceparent,
                request_id=request_id,
            )
        )

    def score(  # noqa: PLR0913 - the options of a call are its public face
        self,
        query: str,
        documents: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        top_n: int | None = None,
        raw: bool = False,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Scores:
        """Score how relevant documents are to a query; see Client.score."""
        return self._call(
            self._client.score(
                query,
                documents,
                model=model,
                priority=priority,
                prompt_name=prompt_name,
                top_n=top_n,
                raw=raw,
                timeout=timeout,
                retries=retries,
                truncate=truncate,
                strict=strict,
                tenant=tenant,
                traceparent=traceparent,
                request_id=request_id,
            )
        )


def _live(started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
    """An event loop from start to end; what still runs at the end is cancelled."""

    async def until_end() -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    asyncio.run(until_end())
