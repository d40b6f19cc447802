"""Infinity, started here with both models unless one runs behind `--url`.

It knows its settings, and what to ask it before it is measured.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from environments import python_of, versions_of
from http_adapter import OverHttp, Server
from http_adapter import opened as opened_http
from http_client import Connections
from http_dialects import Infinity
from infinity_server import running
from serve import Flags, serve

_PACKAGES = ("infinity-emb", "sentence-transformers", "transformers", "tokenizers", "torch", "uvicorn")
# Of 8, 16 and its default of 32: measured with texts of 5–60 and of 60–250 words; a batch is padded to its longest.
_BATCH = 16


@contextmanager
def opened(flags: Flags) -> Iterator[OverHttp]:
    """Start a server, and be a client of it."""
    server = nullcontext(flags.url.rstrip("/")) if flags.url else running(flags, _BATCH)
    with server as url, opened_http(partial(find, flags, url)) as adapter:
        yield adapter


async def find(flags: Flags, url: str, connections: Connections) -> Server:
    """Ask for the names of its models."""
    dialect = Infinity.of(url, await connections.get(f"{url}/models"))
    if flags.url:
        return Server(dialect, {}, {"precision": "as it was started"})
    settings = {
        "engine": "torch, without BetterTransformer, which is of older transformers",
        "precision": flags.dtype,
        "batch": f"sorted by length (its own way), {_BATCH} at most",
        "threads": str(flags.threads),
    }
    return Server(dialect, versions_of(_PACKAGES, python_of("infinity")), settings)


if __name__ == "__main__":
    serve(opened)
