"""A client of a server that speaks HTTP, as fast as Python has one.

It knows connections, JSON and how to split what a server does not take at once. It does not know what any server wants
to be sent: a dialect does.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import numpy as np
import orjson
from adapter import Rows
from http_dialects import Dialect, Request

# uvicorn closes what was idle for 5 s; a request that is sent at that moment would fail.
_KEEP_ALIVE_S = 3
_MAX_TEXT = 300
_JSON = {"Content-Type": "application/json"}


class Connections:
    """Connections that are kept: as many as there are calls in flight."""

    def __init__(self) -> None:
        """Must be called in the event loop that uses it."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def get(self, url: str) -> Any:
        """GET JSON.

        Raises:
            RuntimeError: The server refused.
        """
        async with self._session.get(url) as response:
            return await _read(response)

    async def post(self, request: Request) -> Any:
        """POST JSON, get JSON.

        Raises:
            RuntimeError: The server refused.
        """
        async with self._session.post(request.url, data=orjson.dumps(request.body), headers=_JSON) as response:
            return await _read(response)

    async def close(self) -> None:
        """Close all."""
        await self._session.close()


class HttpClient:
    """A client of one server, or of one for each model."""

    def __init__(self, dialect: Dialect, connections: Connections) -> None:
        """Take the connections over."""
        self._dialect = dialect
        self._connections = connections

    async def embed(self, texts: Sequence[str]) -> Rows:
        """[n, dim], normalised, in order; split where the server does not take them all at once."""
        parts = self._parts(texts)
        if len(parts) == 1:
            return await self._embed(texts)
        return np.concatenate(await asyncio.gather(*(self._embed(part) for part in parts)))

    async def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits, in order; split likewise."""
        parts = [self._score(query, part) for part in self._parts(documents)]
        return np.concatenate(await asyncio.gather(*parts))

    async def close(self) -> None:
        """Let go."""
        await self._connections.close()

    async def _embed(self, texts: Sequence[str]) -> Rows:
        return self._dialect.read_rows(await self._connections.post(self._dialect.to_embed(texts)), len(texts))

    async def _score(self, query: str, documents: Sequence[str]) -> Rows:
        reply = await self._connections.post(self._dialect.to_score(query, documents))
        return self._dialect.read_scores(reply, len(documents))

    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        size = self._dialect.max_texts
        return [texts[start : start + size] for start in range(0, len(texts), size)]


async def open_client(dialect: Dialect) -> HttpClient:
    """Connect lazily: the first call does."""
    return HttpClient(dialect, Connections())


async def _read(response: aiohttp.ClientResponse) -> Any:
    content = await response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.url} answered {response.status}: {content[:_MAX_TEXT].decode(errors='replace')}")
    return orjson.loads(content)
