import pytest
from headrace.errors import InputError
from headrace.exporter.address import Address


@pytest.mark.parametrize(
    ("spelt", "host", "port"),
    [
        ("127.0.0.1:9465", "127.0.0.1", 9465),
        (":0", "", 0),
        ("[::1]:80", "::1", 80),
        ("node-1.example:80", "node-1.example", 80),
    ],
)
def test_an_address_is_a_host_and_a_port(spelt: str, host: str, port: int) -> None:
    assert Address.parse(spelt) == Address(host, port)


@pytest.mark.parametrize(
    "spelt", ["", "9465", "host", "host:", "host:port", "host:70000", "::1:80", "u@host:80", "h:80/x"]
)
def test_what_is_none_is_refused_by_name(spelt: str) -> None:
    with pytest.raises(InputError, match="write HOST:PORT"):
        Address.parse(spelt)
