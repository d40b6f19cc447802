"""A process's pages, over real sockets: what is on them, and what clients may do to them."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
from headrace_contracts.address import Address
from headrace_contracts.page_server import serving
from headrace_contracts.pages import Pages

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

LOOPBACK = Address("127.0.0.1", 0)


def metrics(_: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"mills 3\n"]


def broken() -> str | None:
    raise RuntimeError("nobody knows")


PAGES = Pages(metrics, {"/health/live": lambda: None, "/health/ready": lambda: "it drains", "/health/odd": broken})


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with serving(PAGES, LOOPBACK) as found:
        yield found


@pytest.fixture(scope="module")
def http(address: Address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address}", timeout=20) as http:
        yield http


def test_health_is_a_status_and_a_reason(http: httpx.Client) -> None:
    found = {path: http.get(f"/health/{path}") for path in ("live", "ready", "odd")}
    assert {path: (answer.status_code, answer.json()) for path, answer in found.items()} == {
        "live": (200, {"status": "ok"}),
        "ready": (503, {"status": "unready", "reason": "it drains"}),
        "odd": (500, {"status": "unknown", "reason": "RuntimeError('nobody knows')"}),
    }


def test_each_answer_is_as_long_as_it_says_whichever_came_before(http: httpx.Client) -> None:
    for path in ("/", "/health/ready", "/health/live", "/health/ready", "/metrics", "/health/live", "/"):
        answer = http.get(path)
        assert int(answer.headers["content-length"]) == len(answer.content)


def test_headers_may_be_asked_for_alone(http: httpx.Client) -> None:
    for path, status in (("/metrics", 200), ("/health/live", 200), ("/health/ready", 503), ("/", 404)):
        answer = http.head(path)
        assert (answer.status_code, answer.content) == (status, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/health/live", 405), ("DELETE", "/metrics", 405)]
)
def test_what_is_not_there_is_said_so(http: httpx.Client, method: str, path: str, status: int) -> None:
    assert http.request(method, path).status_code == status


def test_clients_that_say_nothing_keep_no_probe_out(http: httpx.Client, address: Address) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((address.host, address.port))) for _ in range(100)]
        assert http.get("/health/live").status_code == 200
        silent[0].settimeout(20)
        assert silent[0].recv(1) == b"", "the oldest had to make room"


@pytest.mark.parametrize(
    "sent", [b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + 70_000 * b"x", b"GET /\r\nA: "]
)
def test_nonsense_does_it_no_harm(http: httpx.Client, address: Address, sent: bytes) -> None:
    with socket.create_connection((address.host, address.port)) as hostile:
        hostile.sendall(sent)
    assert http.get("/health/live").status_code == 200


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_without_a_host_it_listens_on_all_interfaces_of_both_kinds() -> None:
    with serving(PAGES, Address("", 0)) as found:
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{found.port}/health/live").status_code == 200
