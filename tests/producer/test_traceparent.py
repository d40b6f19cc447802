"""Trace contexts are checked against the W3C's spelling."""

import pytest
from headrace import InputError
from headrace.traceparent import check_traceparent
from hypothesis import given
from hypothesis import strategies as st

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def hexes(digits: int, least: int = 0) -> st.SearchStrategy[str]:
    return st.integers(least, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


@given(
    st.builds("{}-{}-{}-{}".format, hexes(2).filter(lambda v: v != "ff"), hexes(32, 1), hexes(16, 1), hexes(2)),
)
def test_what_the_w3c_spells_passes(value: str) -> None:
    check_traceparent(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "traceparent is '': write version-traceid-spanid-flags"),
        (7, "traceparent is 7"),
        (b"00-", "traceparent is b'00-'"),
        (f"00-{TRACE}-{SPAN}", "write version"),
        (f"00-{TRACE.upper()}-{SPAN}-01", "lower-case hex"),
        (f"00-{TRACE}-{SPAN}-01\n", "write version"),
        (f"00-{TRACE}-{SPAN}-01-more", "write version"),
        (f" 00-{TRACE}-{SPAN}-01", "write version"),
        (f"00-{TRACE}0-{SPAN}-01", "write version"),
        (f"ff-{TRACE}-{SPAN}-01", "version ff is not valid"),
        (f"00-{'0' * 32}-{SPAN}-01", "the trace id is all zeros"),
        (f"00-{TRACE}-{'0' * 16}-01", "the span id is all zeros"),
        ("x" * 10_000, "^.{0,300}$"),
    ],
)
def test_what_no_tracing_system_could_read_is_refused(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_traceparent(value)
