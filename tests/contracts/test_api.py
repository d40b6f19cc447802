"""What comes of an answer of the JetStream API, whoever wrote it."""

import pytest
from headrace_contracts.api import Unreadable, read_answer
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError


def test_an_answer_is_what_was_asked_for() -> None:
    assert read_answer(b'{"streams": [], "error": null}') == {"streams": [], "error": None}


@pytest.mark.parametrize("code", [10059, 10014])
def test_there_may_be_no_such_thing(code: int) -> None:
    assert read_answer(b'{"error": {"code": 404, "err_code": %d}}' % code) is None


def test_an_error_may_have_fields_that_nats_py_does_not_know() -> None:
    with pytest.raises(NotFoundError) as caught:
        read_answer(b'{"error": {"code": 404, "err_code": 10037, "description": "no message", "newer": [1]}}')
    assert (caught.value.err_code, caught.value.description) == (10037, "no message")


@pytest.mark.parametrize("error", [b"{}", b'{"code": "404"}', b'{"code": [], "err_code": {}}'])
def test_an_error_may_lack_everything(error: bytes) -> None:
    with pytest.raises(APIError):
        read_answer(b'{"error": %b}' % error)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b"null", b"7", b'{"error": "no"}', b'{"error": 7}', b"[" * 99_999]
)
def test_nonsense_is_an_error_of_nats_as_callers_catch_it(data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        read_answer(data)
    assert isinstance(caught.value, NatsError)
