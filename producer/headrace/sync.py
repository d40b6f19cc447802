"""SyncClient: the same client for programs without an event loop.

Knows how to run Client on an event loop in a thread of its own. Usable from many threads at once.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from anyio.from_thread import start_blocking_portal
from headrace_contracts import Dtype, ModelSpec, Priority

from headrace.client import Client
from headrace.embeddings import Embeddings


class SyncClient:
    """Client for threads; `with SyncClient(url) as client`, or close it. Arguments and errors are those of Client."""

    def __init__(self, url: str = "nats://127.0.0.1:4222", *, timeout: float = 5) -> None:
        """Connect; see Client.connect."""
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._client = self._portal.call(partial(Client.connect, url, timeout=timeout))
            stack.callback(self._portal.call, self._client.close)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Close the connection and end the thread; a second time does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def models(self) -> list[ModelSpec]:
        """The models that the fleet has published; see Client.models."""
        return self._portal.call(self._client.models)

    def embed(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype = "f32",
        normalize: bool | None = None,
        timeout: float | None = None,
        truncate: bool = True,
        strict: bool = False,
    ) -> Embeddings:
        """Embed texts; see Client.embed."""
        return self._portal.call(
            partial(
                self._client.embed,
                texts,
                model=model,
                priority=priority,
                prompt_name=prompt_name,
                dim=dim,
                dtype=dtype,
                normalize=normalize,
                timeout=timeout,
                truncate=truncate,
                strict=strict,
            )
        )
