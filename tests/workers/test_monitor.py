"""The monitor of a process whose worker does not serve yet, over real sockets."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from headrace_workers.address import Address
from headrace_workers.errors import AddressUnfit
from headrace_workers.health import Limits
from headrace_workers.monitor import monitored
from headrace_workers.pulse import Pulse

LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with monitored(LOOPBACK, "mill", Pulse(Limits())) as found:
        yield found


@pytest.fixture(scope="module")
def http(address: Address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address}", timeout=20) as http:
        yield http


def test_before_the_model_is_loaded_a_worker_lives_and_says_what_it_waits_for(http: httpx.Client) -> None:
    live = http.get("/health/live")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    for check in ("startup", "ready"):
        answer = http.get(f"/health/{check}")
        assert answer.status_code == 503
        assert answer.json()["status"] == "unready"
        assert "the model is being loaded" in answer.json()["reason"]


def test_metrics_come_in_the_format_that_is_asked_for(http: httpx.Client) -> None:
    plain = http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert 'headrace_worker_ready{model="mill"} 0.0' in plain.text
    opened = http.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert opened.text.endswith("# EOF\n")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/health/live", 405)])
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


def test_a_port_that_is_taken_is_an_error_that_names_it(address: Address) -> None:
    with (
        pytest.raises(
            AddressUnfit, match=f"monitor {address} cannot be listened on .*in use.* give another one, or port 0"
        ),
        monitored(address, "mill", Pulse(Limits())),
    ):
        pass


def test_an_address_of_another_machine_is_an_error_that_names_it() -> None:
    with (
        pytest.raises(AddressUnfit, match=r"monitor 192\.0\.2\.1:0 cannot be listened on"),
        monitored(Address("192.0.2.1", 0), "mill", Pulse(Limits())),
    ):
        pass


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_without_a_host_it_listens_on_all_interfaces_of_both_kinds() -> None:
    with monitored(Address("", 0), "mill", Pulse(Limits())) as found:
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{found.port}/health/live").status_code == 200
