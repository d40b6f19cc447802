"""Qdrant's REST, as far as a sink uses it, over the storage that the client brings: no package brings a server.

So all between a sink and a server is real but the server: the client, HTTP, what is written as JSON and read again.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel
from qdrant_client import QdrantClient, models


@contextmanager
def serving() -> Iterator[str]:
    """URL of such a server, empty."""
    with HTTPServer(("127.0.0.1", 0), _handler(QdrantClient(":memory:"))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _handler(client: QdrantClient) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            _, _, name, *rest = unquote(urlsplit(self.path).path).split("/")
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            try:
                call = _CALLS[self.command, "/".join(rest)]
                self.send(
                    200, {"result": _plain(call(client, name, json.loads(body or "null"))), "status": "ok", "time": 0}
                )
            except ValueError as error:
                exists = "already exists" in str(error)
                self.send(409 if exists else 400, {"status": {"error": str(error)}, "time": 0})

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        def send(self, status: int, said: object) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def _create(client: QdrantClient, name: str, body: Any) -> bool:
    asked = models.CreateCollection(**body)
    return client.create_collection(name, asked.vectors, metadata=asked.metadata)


def _retrieve(client: QdrantClient, name: str, body: Any) -> list[models.Record]:
    asked = models.PointRequest(**body)
    return client.retrieve(name, asked.ids, asked.with_payload or False, asked.with_vector or False)


_CALLS: dict[tuple[str, str], Callable[[QdrantClient, str, Any], object]] = {
    ("GET", "exists"): lambda client, name, _: {"exists": client.collection_exists(name)},
    ("GET", ""): lambda client, name, _: client.get_collection(name),
    ("PUT", ""): _create,
    ("DELETE", ""): lambda client, name, _: client.delete_collection(name),
    ("PUT", "points"): lambda client, name, body: client.upsert(name, models.PointsBatch(**body).batch),
    ("POST", "points"): _retrieve,
    ("POST", "points/count"): lambda client, name, _: client.count(name),
}


def _plain(result: object) -> object:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    return [_plain(each) for each in result] if isinstance(result, list) else result
