"""What a gateway refuses, and how: each API's own words, before anything reaches the fleet."""

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from headrace import ErrorCode
from headrace.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    HeadraceError,
    InputError,
    ItemError,
    ItemsFailed,
    ModelChanged,
    ModelNotFound,
    Overloaded,
    from_code,
)
from headrace.gateway import shapes
from headrace.gateway.problems import problem_of

from ..conftest import DEMO_MODEL
from .running import Running, gateway

PATHS: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": "text"},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
    "/v2/rerank": {"query": "a", "documents": ["b"]},
    "/embed": {"inputs": "text"},
    "/rerank": {"query": "a", "texts": ["b"]},
    "/tokenize": {"inputs": "text"},
}
EACH = pytest.mark.parametrize("path", PATHS)


def text_of(path: str, reply: httpx.Response) -> str:
    """The message, found where clients of the API look for it."""
    body = reply.json()
    if path == "/v1/embeddings":
        assert set(body["error"]) == {"message", "type", "param", "code"}
        return str(body["error"]["message"])
    if path in {"/v1/rerank", "/v2/rerank"}:
        assert body["message"] == body["detail"]
        return str(body["message"])
    assert set(body) == {"error", "error_type"}
    return str(body["error"])


@EACH
def test_a_compressed_body_is_refused_and_not_opened(http: httpx.Client, path: str) -> None:
    reply = http.post(path, content=gzip.compress(b'{"input": "text"}'), headers={"Content-Encoding": "gzip"})
    assert reply.status_code == 415
    assert text_of(path, reply) == "content-encoding is gzip: send the body as it is"


@EACH
@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "the body is empty"),
        (b"{", "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b'{"model": NaN}', "the body is no JSON"),
        (b'{"model": "\xff"}', "the body is no JSON"),
    ],
)
def test_what_is_no_json_is_a_bad_request(http: httpx.Client, path: str, body: bytes, what: str) -> None:
    reply = http.post(path, content=body)
    assert reply.status_code == 400
    assert what in text_of(path, reply)


@EACH
@pytest.mark.parametrize("body", [b"[" * 500_000, b'{"model":' * 100_000, b'{"input":' + b"[" * 500_000])
def test_deep_nesting_is_refused(http: httpx.Client, path: str, body: bytes) -> None:
    assert http.post(path, content=body).status_code in {400, 413, 422}


@EACH
@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("X-Headrace-Priority", "high", "X-Headrace-Priority: Invalid enum value 'high'; send online or batch"),
        ("X-Headrace-Timeout-Ms", "0", "X-Headrace-Timeout-Ms: Expected `int` >= 1"),
        ("X-Headrace-Timeout-Ms", "soon", "send a whole number of milliseconds"),
        ("X-Headrace-Timeout-Ms", "600001", "X-Headrace-Timeout-Ms is 600001: at most 600000"),
        ("X-Headrace-Timeout-Ms", "9" * 40, "X-Headrace-Timeout-Ms"),
        ("X-Headrace-Tenant", "no name", "X-Headrace-Tenant is 'no name'"),
    ],
)
def test_a_header_that_cannot_be_read_is_a_bad_request(
    http: httpx.Client, path: str, name: str, value: str, what: str
) -> None:
    reply = http.post(path, json=PATHS[path], headers={name: value})
    assert reply.status_code == 400
    assert what in text_of(path, reply)


@pytest.mark.parametrize(
    ("path", "body", "code", "status", "route"),
    [
        ("/v1/embeddings", {"input": "text", "model": "\x1b[2J" + 9999 * "m"}, "unknown_model", 404, "/v1/embeddings"),
        ("/embed", {"inputs": 7}, "invalid", 422, "/embed"),
        ("/" + 9999 * "p-", {}, "unknown_path", 404, "unmatched"),
    ],
)
def test_each_refusal_is_one_short_line_of_the_log_under_the_name_of_its_request(
    served: Running, http: httpx.Client, path: str, body: dict[str, Any], code: str, status: int, route: str
) -> None:
    name = f"refused-{code}"
    assert http.post(path, json=body, headers={"X-Request-Id": name}).status_code == status
    line = served.line_with(name)
    told = json.loads(line)
    assert (told["request_id"], told["code"], told["status"], told["route"]) == (name, code, status, route)
    assert (told["level"], len(line) < 1000) == ("info", True)


@EACH
def test_good_headers_are_taken_and_an_odd_traceparent_is_dropped(http: httpx.Client, path: str) -> None:
    for trace in ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "no trace"):
        good = {"X-Headrace-Priority": "batch", "X-Headrace-Timeout-Ms": "30000", "X-Headrace-Tenant": "search"}
        reply = http.post(path, json=PATHS[path], headers={**good, "traceparent": trace})
        assert reply.status_code == 200, reply.text


@EACH
def test_a_body_may_come_under_any_content_type(http: httpx.Client, path: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # as curl -d says
    content = http.build_request("POST", path, json=PATHS[path]).content
    assert http.post(path, content=content, headers=form).status_code == 200


@EACH
def test_another_method_is_not_allowed(http: httpx.Client, path: str) -> None:
    reply = http.put(path, json=PATHS[path])
    assert reply.status_code == 405
    assert "another method" in text_of(path, reply)


def test_a_path_that_nobody_has_is_not_found_and_counted_under_one_label(http: httpx.Client) -> None:
    for path in ("/nothing", "/v1/nothing", "/v1/embeddings/more", "/%00", "/..%2f"):
        reply = http.get(path)
        assert reply.status_code == 404
        assert "no such path" in reply.json()["error"]["message"]
    page = http.get("/metrics").text
    assert 'route="unmatched",status="404"' in page
    assert "nothing" not in page


@pytest.fixture(scope="module")
def narrow(both: str) -> Iterator[Running]:
    """A gateway with small limits."""
    flags = {"--max-body-bytes": 2000, "--max-items": 3, "--max-tokens": 20, "--max-timeout": 5}
    with gateway(both, *(str(part) for flag in flags.items() for part in flag)) as running:
        yield running


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(narrow: Running) -> None:
    host, port = narrow.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        head = f"POST /embed HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000000\r\n\r\n"
        connection.sendall(head.encode() + b'{"inputs": ')
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@EACH
def test_a_body_that_turns_out_too_large_is_refused(narrow: Running, path: str) -> None:
    def endless() -> Iterator[bytes]:
        yield from (b" " * 100 for _ in range(30))

    reply = httpx.post(narrow.url + path, content=endless())
    assert reply.status_code == 413
    assert "larger than 2000 bytes" in text_of(path, reply)


@EACH
def test_too_many_items_are_refused(narrow: Running, path: str) -> None:
    ((field, _),) = [(key, value) for key, value in PATHS[path].items() if key != "query"]
    both: tuple[list[Any], ...] = (["b"] * 4, [[101]] * 4)
    for items in both:
        body = {**PATHS[path], field: items}
        reply = httpx.post(narrow.url + path, json=body)
        if items[0] != "b" and path not in {"/v1/embeddings", "/embed"}:
            assert reply.status_code == 422
            continue
        assert reply.status_code == 413
        assert f"{field} has 4 items: at most 3 a request" in text_of(path, reply)
    assert httpx.post(narrow.url + path, json={**PATHS[path], field: ["b"] * 3}).status_code == 200


@EACH
def test_too_many_tokens_are_refused(narrow: Running, path: str) -> None:
    ((field, _),) = [(key, value) for key, value in PATHS[path].items() if key != "query"]
    reply = httpx.post(narrow.url + path, json={**PATHS[path], field: ["a " * 10] * 3})
    assert reply.status_code == (400 if path == "/v1/embeddings" else 422)
    assert "tokens: at most 20" in text_of(path, reply)


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (InputError("x"), 422, None),
        (ModelNotFound("x"), 404, None),
        (ConnectionFailed("x"), 503, "1"),
        (HeadraceError("x"), 503, "1"),
        (Overloaded(ErrorCode.OVERLOADED, "x", 2.3), 429, "3"),
        (Overloaded(ErrorCode.OVERLOADED, "x"), 429, "1"),
        (DeadlineExceeded(ErrorCode.EXPIRED, "x"), 504, None),
        (ModelChanged(ErrorCode.MODEL_MISMATCH, "x"), 503, "1"),
        (from_code(ErrorCode.UNAVAILABLE, "x", 1500), 503, "2"),
        (from_code(ErrorCode.CANCELLED, "x"), 503, "1"),
        (from_code(ErrorCode.INVALID, "x"), 422, None),
        (from_code(ErrorCode.INTERNAL, "x"), 502, None),
        *(
            (ItemsFailed({3: ItemError(code, "x")}, "texts", "vector"), status, None)
            for code, status in (
                (ErrorCode.TOO_LONG, 422),
                (ErrorCode.INVALID, 422),
                (ErrorCode.NON_FINITE, 422),
                (ErrorCode.INTERNAL, 502),
            )
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_each_error_of_the_client_has_its_status(error: HeadraceError, status: int, retry_after: str | None) -> None:
    problem = problem_of(error)
    assert shapes.TEI.status(problem) == shapes.COHERE.status(problem) == status
    assert shapes.OPENAI.status(problem) == (400 if status == 422 else status)
    assert shapes.headers(problem).get("Retry-After") == retry_after


def test_every_error_code_of_the_contract_has_a_status() -> None:
    for code in ErrorCode:
        assert shapes.OPENAI.status(problem_of(from_code(code, "x"))) in {400, 429, 502, 503, 504}


@pytest.mark.parametrize("path", ["/health/live", "/nowhere", "/v1/embeddings"])
def test_every_answer_has_the_name_of_its_request(http: httpx.Client, path: str) -> None:
    given = http.post(path, content=b"[", headers={"X-Request-Id": "order-7"})
    assert given.headers.get_list("x-request-id") == ["order-7"]
    made = [
        http.post(path, content=b"[", headers={"X-Request-Id": name}).headers["x-request-id"] for name in ("a b", "")
    ]
    assert all(len(name) == 24 for name in made)
    assert len(set(made)) == 2


def test_all_is_counted(http: httpx.Client) -> None:
    def counted(name: str, **labels: str) -> float:
        lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name}{{")]
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(part in line for part in wanted))

    def all_of() -> list[float]:
        route: dict[str, Any] = {"route": "/v1/embeddings", "class": "batch"}
        return [
            counted("headrace_gateway_requests_total", status="200", **route),
            counted("headrace_gateway_request_seconds_count", **route),
            counted("headrace_gateway_tokens_total", model=DEMO_MODEL, **{"class": "batch"}),
            counted("headrace_gateway_refusals_total", reason="unknown_model"),
        ]

    before = all_of()
    batch = {"X-Headrace-Priority": "batch"}
    reply = http.post("/v1/embeddings", json={"input": ["one", "two"]}, headers=batch)
    http.post("/v1/embeddings", json={"input": "one", "model": "nobody's"})
    after = all_of()
    assert [new - old for new, old in zip(after, before, strict=True)] == [
        1,
        1,
        reply.json()["usage"]["total_tokens"],
        1,
    ]
