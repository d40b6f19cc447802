"""The monitor of a process whose worker does not serve yet, over real sockets."""

from collections.abc import Iterator

import httpx
import pytest
from headrace_contracts.address import Address
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
