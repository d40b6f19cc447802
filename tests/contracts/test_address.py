"""How an address to listen on is spelt."""

import pytest
from headrace_contracts.address import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        (":9464", "", 9464),
        ("localhost:0", "localhost", 0),
        ("[::1]:9464", "::1", 9464),
    ],
)
def test_an_address_reads_as_it_is_written(text: str, host: str, port: int) -> None:
    address = Address.read(text, "monitor")
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["9464", "localhost", "localhost:", "localhost:http", "h:65536", "::1:9464", "a b:1", "u@h:1", "h/x:1", ""]
)
def test_what_is_no_address_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"^monitor is .*: write HOST:PORT, as 127\.0\.0\.1:9464"):
        Address.read(text, "monitor")
