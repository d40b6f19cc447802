"""An adapter without a model: run by the tests as a contender's process, to behave or misbehave as it is told.

Its vectors are made of the characters of a text, so that another process can tell what is right.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "bench" / "peers"))

from adapter import Rows
from serve import Flags, serve


def vectors(texts: Sequence[str]) -> Rows:
    """[n, 3], normalised."""
    rows = np.array([(len(text), text.count("e"), 1) for text in texts], np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def scores(query: str, documents: Sequence[str]) -> Rows:
    """[n]."""
    return np.array([len(document) - len(query) for document in documents], np.float32)


class Fake:
    """Does what the directory is called that it is told to take for the embedder: so each contender has its own way."""

    def __init__(self, behaviour: str, dtype: str) -> None:
        self._behaviour = behaviour
        self._num_calls = 0
        self.versions: Mapping[str, str] = {"fake": "1"}
        self.settings: Mapping[str, str] = {"behaviour": behaviour, "dtype": dtype}
        print("this goes to the log")

    def embed(self, texts: Sequence[str]) -> Rows:
        self._num_calls += 1
        self._misbehave()
        rows = vectors(texts)
        wrong = {"short": rows[:-1], "nan": rows * np.float32(np.nan), "wrong": rows[:, ::-1], "scaled": rows * 2}
        if self._behaviour == "careless" and self._num_calls > 3:
            return rows[::-1]
        return wrong.get(self._behaviour, rows)

    def _misbehave(self) -> None:
        match self._behaviour:
            case "raises":
                raise RuntimeError("out of memory")
            case "dies" | "orphans-and-dies":
                print("a last word", file=sys.stderr, flush=True)
                os._exit(3)
            case "mute":
                time.sleep(600)

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        return scores(query, documents)


class Client:
    """One that any process can open."""

    async def embed(self, texts: Sequence[str]) -> Rows:
        return vectors(texts)

    async def score(self, query: str, documents: Sequence[str]) -> Rows:
        return scores(query, documents)

    async def close(self) -> None:
        pass


async def open_client(fails: bool) -> Client:
    if fails:
        raise ConnectionError("nobody listens")
    return Client()


class FakeServer:
    """The same behind clients."""

    versions: Mapping[str, str]
    settings: Mapping[str, str]

    def __init__(self, behaviour: str) -> None:
        self.versions = {"fake": "1"}
        self.settings = {"behaviour": behaviour}
        self.open_client = partial(open_client, behaviour == "no-clients")


@contextmanager
def opened(flags: Flags) -> Iterator[Fake | FakeServer]:
    behaviour = flags.embedder.name
    if behaviour == "refuses":
        raise RuntimeError("this processor has no bfloat16")
    if behaviour == "never-starts":
        sys.exit("no module named onnxruntime")
    if behaviour.startswith("orphans"):
        orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        flags.work.joinpath("orphan").write_text(str(orphan.pid))
    yield FakeServer(behaviour) if behaviour in {"server", "no-clients"} else Fake(behaviour, flags.dtype)


if __name__ == "__main__":
    if "garbage" in " ".join(sys.argv):
        print("Downloading weights…", flush=True)
    serve(opened)
