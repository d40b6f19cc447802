"""vLLM, where one runs: `--url EMBEDDER` or `--url EMBEDDER,SCORER`, since one server has one model.

It knows what to ask it before it is measured.
"""

from functools import partial

from http_adapter import Server, opened
from http_client import Connections
from http_dialects import Vllm, split_urls
from serve import serve


async def find(url: str | None, connections: Connections) -> Server:
    """Ask for names and the version, and try whether logits can be had."""
    embedder, scorer = split_urls(url)
    names = [(await connections.get(f"{address}/v1/models"))["data"][0]["id"] for address in (embedder, scorer)]
    version = (await connections.get(f"{embedder}/version"))["version"]
    dialect = Vllm(embedder, scorer, names[0], names[1], has_logits=await _has_logits(scorer, names[1], connections))
    return Server(dialect, {"vllm": version}, {"precision": "as it was started"})


async def _has_logits(url: str, model: str, connections: Connections) -> bool:
    """Whether `use_activation` makes a difference: a server that does not know it says nothing and gives probabilities.

    A server without a reranker refuses; then there is nothing to know.
    """
    try:
        raw, activated = [
            (await connections.post(Vllm(url, url, model, model, has_logits).to_score("water", ["a mill"])))["results"]
            for has_logits in (True, False)
        ]
    except RuntimeError:
        return True
    return bool(raw[0]["relevance_score"] != activated[0]["relevance_score"])


if __name__ == "__main__":
    serve(lambda flags: opened(partial(find, flags.url)))
