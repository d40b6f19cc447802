"""text-embeddings-inference, where one runs: `--url EMBEDDER` or `--url EMBEDDER,SCORER`: one server has one model.

It knows what to ask it before it is measured.
"""

from functools import partial

from http_adapter import Server, opened
from http_client import Connections
from http_dialects import Tei, split_urls
from serve import serve


async def find(url: str | None, connections: Connections) -> Server:
    """Ask for the version, the precision and the limit of a request."""
    embedder, scorer = split_urls(url)
    infos = [await connections.get(f"{address}/info") for address in (embedder, scorer)]
    dialect = Tei(embedder, scorer, min(info["max_client_batch_size"] for info in infos))
    versions = {"text-embeddings-inference": infos[0]["version"]}
    return Server(dialect, versions, {"model": infos[0]["model_id"], "precision": infos[0]["model_dtype"]})


if __name__ == "__main__":
    serve(lambda flags: opened(partial(find, flags.url)))
