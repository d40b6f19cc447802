"""What a gateway is sent: any path, headers and body, over a real connection to the real application.

It knows which answers are documented, and that a connection must be of use afterwards. It does not know what answers
requests behind the gateway: gateway_child.py does.
"""

import json
import re
import subprocess
import sys
from functools import cache
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from socket import create_connection, socket
from typing import IO, Any, cast

from fuzz import packing
from fuzz.mutation import mutated_json, mutated_parts
from fuzz.target import Target, Verdict, Wrong
from fuzz.trees import changed, other_bytes, other_leaf

_CHILD = Path(__file__).with_name("gateway_child.py")
_TIMEOUT_S = 30
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(rb"[\0-\x08\n-\x1f\x7f]")
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9/_.~%?=&-]*")
# What frames a request is ours to say.
_OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect"})
_GOOD: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": "text", "model": "m", "dimensions": 2, "encoding_format": "base64"},
    "/v1/rerank": {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1, "return_documents": True},
    "/v2/rerank": {"query": "a", "documents": ["b", "c"], "max_tokens_per_doc": 9},
    "/embed": {"inputs": ["a", "b"], "truncate": True, "normalize": False},
    "/rerank": {"query": "a", "texts": ["b"], "raw_scores": True, "return_text": True},
    "/tokenize": {"inputs": ["a b", "c"], "add_special_tokens": True},
    "/": {"inputs": "a"},
}
_OTHERS = ("/v1/models", "/v1/models/m", "/info", "/health/live", "/metrics", "/openapi.json", "/nowhere")
_HEADERS: list[list[bytes]] = [
    [b"Content-Type", b"application/json"],
    [b"X-Headrace-Priority", b"batch"],
    [b"X-Headrace-Timeout-Ms", b"5000"],
    [b"X-Headrace-Tenant", b"search"],
    [b"X-Request-Id", b"order-7"],
    [b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    [b"Authorization", b"Bearer none"],
    [b"Content-Encoding", b"identity"],
    [b"Accept", b"*/*"],
    [b"Cookie", b"a=b"],
]
_ALIVE = b"GET /health/live HTTP/1.1\r\nHost: gateway\r\n\r\n"
_METHODS = (b"POST", b"POST", b"POST", b"POST", b"GET", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"BREW")


def targets() -> list[Target]:
    """It."""
    return [
        Target(
            name="gateway",
            group="gateway",
            seeds=_seeds,
            run=run,
            mutate=mutate,
            max_bytes=60_000,
            timeout_s=60,
            packages=("headrace_contracts",),
            close=lambda: _gateway().close(),
        )
    ]


def _seeds() -> list[bytes]:
    bodies: list[tuple[str, Any]] = [*_GOOD.items()]
    bodies += [(path, {**body, "extra": 1}) for path, body in _GOOD.items()]
    bodies += [("/v1/embeddings", {"input": [[101, 102], [7]]}), ("/embed", {"inputs": [1, 2, 3]})]
    found = [_input(b"POST", path.encode(), json.dumps(body).encode()) for path, body in bodies]
    found += [_input(b"GET", path.encode(), b"") for path in _OTHERS]
    return found + [
        _input(b"POST", path.encode(), body) for path in _GOOD for body in (b"", b"[" * 30_000, b"\xff", b"{}")
    ]


def _input(method: bytes, path: bytes, body: bytes, headers: list[list[bytes]] | None = None) -> bytes:
    return packing.packed({"m": method, "p": path, "h": _HEADERS[:4] if headers is None else headers, "b": body})


def mutate(data: bytes, rng: Random) -> bytes:
    """Another request."""
    try:
        found = packing.unpacked(data)
    except ValueError:
        return other_bytes(data, rng)
    if not isinstance(found, dict):
        return data
    chance = rng.random()
    if chance < 0.25:
        found["h"] = changed([rng.choice(_HEADERS) for _ in range(rng.randrange(6))], rng, other_leaf)
    if chance < 0.05:
        found["m"] = rng.choice(_METHODS)
    if 0.05 < chance < 0.12:
        found["p"] = rng.choice((*_GOOD, *_OTHERS)).encode()
    return mutated_parts(packing.packed(found), rng, {"b": mutated_json, "p": _other_path, "m": _itself})


def _other_path(path: bytes, rng: Random) -> bytes:
    return other_bytes(path, rng) if rng.random() < 0.1 else path


def _itself(method: bytes, _: Random) -> bytes:
    return method


def run(data: bytes) -> Verdict:
    """Send a request, and another one behind it.

    Raises:
        Wrong: The answer is none that is documented, does not come, or the gateway is of no use afterwards.
    """
    try:
        found = packing.unpacked(data)
        method, path, headers, body = found["m"], found["p"], found["h"], found["b"]
    except (ValueError, KeyError, TypeError):
        return Verdict.REFUSED
    if not all(isinstance(part, bytes) for part in (method, path, body)) or not _TOKEN.fullmatch(method):
        return Verdict.REFUSED
    path = b"/" + _NO_VALUE.sub(b"", path).lstrip(b"/").replace(b" ", b"%20").replace(b"#", b"%23")
    head = [method[:20] + b" " + path + b" HTTP/1.1", b"Host: gateway", b"Content-Length: %d" % len(body)]
    request = b"\r\n".join([*head, *_lines(headers), b"", body])
    try:
        status, answer = _gateway().ask(request, method)
    except (OSError, HTTPException) as error:
        raise Wrong(f"{method!r} {path!r} has no answer: {error!r}") from error
    _check(path, method, status, answer)
    return Verdict.TAKEN if status < 400 else Verdict.REFUSED


def _lines(headers: Any) -> list[bytes]:
    """Header lines that HTTP allows."""
    lines = []
    for each in headers if isinstance(headers, list) else ():
        match each:
            case [bytes() as name, bytes() as value] if _TOKEN.fullmatch(name) and name.lower() not in _OURS:
                lines.append(name[:100] + b": " + _NO_VALUE.sub(b"", value)[:2000])
    return lines[:50]


def _check(path: bytes, method: bytes, status: int, answer: bytes) -> None:
    if status >= 500 and status not in {503, 504}:
        raise Wrong(f"{method!r} {path!r} is answered with {status}: {answer[:500]!r}")
    if status < 400 or method == b"HEAD":
        return
    if not _PLAIN_PATH.fullmatch(path) and not answer:
        return  # no URL at all, for the HTTP server
    try:
        told = json.loads(answer)
    except ValueError as error:
        raise Wrong(f"{method!r} {path!r} is refused with {status} and no JSON: {answer[:500]!r}") from error
    if not _text_of(path.partition(b"?")[0].decode("latin-1"), told):
        raise Wrong(f"{method!r} {path!r} is refused with {status} and nothing that its clients can read: {told!r}")


def _text_of(path: str, told: Any) -> str:
    """The message, where clients of the path's API look for it; empty where it is not there."""
    match told:
        case {"error": {"message": str(text), "type": str(), "param": _, "code": str()}}:
            return text if path not in {*_GOOD} - {"/v1/embeddings"} else ""
        case {"message": str(text), "detail": str()}:
            return text if "rerank" in path else ""
        case {"error": str(text), "error_type": str()}:
            return text
    return ""


class _Gateway:
    """The gateway's process, and a connection to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = cast("IO[bytes]", self._process.stdout).readline().decode()
        host, _, port = line.strip().rpartition(":")
        self._address = (host, int(port))
        self._connection: socket | None = None

    def ask(self, request: bytes, method: bytes) -> tuple[int, bytes]:
        """The answer to a request; then the gateway is asked whether it lives, by the same connection if that is open.

        Raises:
            Wrong: It does not, or not as it should.
        """
        status, answer = self._ask(request, method)
        try:
            alive, told = self._ask(_ALIVE, b"GET")
        except OSError:  # closed: there may be more of a body than anybody wants to read
            alive, told = self._ask(_ALIVE, b"GET")
        if alive != 200:
            raise Wrong(f"afterwards /health/live is answered with {alive}: {told[:500]!r}")
        return status, answer

    def _ask(self, request: bytes, method: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = create_connection(self._address, _TIMEOUT_S)
        response = HTTPResponse(self._connection, method=method.decode())
        try:
            self._connection.sendall(request)
            response.begin()
            body = response.read()
        except BaseException:
            self._hang_up()
            raise
        if response.status != 400 and not response.headers.get("x-request-id"):
            raise Wrong(f"an answer without a name: {response.status} {response.headers.items()}")
        if response.will_close:
            self._hang_up()
        return response.status, body

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """End it."""
        self._hang_up()
        cast("IO[bytes]", self._process.stdin).close()
        self._process.wait()
        cast("IO[bytes]", self._process.stdout).close()


@cache
def _gateway() -> _Gateway:
    return _Gateway()
