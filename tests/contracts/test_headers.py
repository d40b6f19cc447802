import pytest
from headrace_contracts import DecodeError, Envelope, InvalidName, headers
from hypothesis import given
from hypothesis import strategies as st

from .strategies import envelopes, patient

INBOX = "hr.inbox.client.c.1.r"
WHOLE = {headers.REPLY_TO: INBOX, headers.TOKENS: "3", headers.DEADLINE: "1700000000000"}


@patient
@given(envelopes)
def test_an_envelope_comes_back_as_it_was(envelope: Envelope) -> None:
    assert Envelope.from_headers(envelope.to_headers()) == envelope


def test_headers_are_spelled_as_the_contract_says() -> None:
    envelope = Envelope(
        reply_to=INBOX,
        tokens=3,
        deadline_ms=1700000000000,
        tenant="search",
        msg_id="c1-0",
        traceparent="00-ab-cd-01",
        request_id="order-7",
    )
    assert envelope.to_headers() == {
        "Hr-Reply": INBOX,
        "Hr-Tokens": "3",
        "Hr-Deadline": "1700000000000",
        "Hr-Tenant": "search",
        "Nats-Msg-Id": "c1-0",
        "traceparent": "00-ab-cd-01",
        "Hr-Request": "order-7",
    }


def test_what_has_no_value_has_no_header() -> None:
    assert Envelope(reply_to=INBOX, tokens=3).to_headers() == {"Hr-Reply": INBOX, "Hr-Tokens": "3"}


def test_headers_of_others_are_passed_over() -> None:
    assert Envelope.from_headers({**WHOLE, "Nats-Expected-Stream": "HR_BATCH_m"}) == Envelope.from_headers(WHOLE)


@pytest.mark.parametrize("found", [None, {}, {headers.TOKENS: "3"}])
def test_a_chunk_must_say_where_its_reply_goes(found: dict[str, str] | None) -> None:
    with pytest.raises(DecodeError, match="header Hr-Reply is missing"):
        Envelope.from_headers(found)


@pytest.mark.parametrize("subject", ["", "$JS.API.STREAM.DELETE.HR_DEAD", "hr.online.m.0.0", "hr.inbox.*.>", "a b"])
def test_a_reply_goes_nowhere_but_to_inboxes_and_results(subject: str) -> None:
    with pytest.raises(DecodeError, match="header Hr-Reply is"):
        Envelope.from_headers({**WHOLE, headers.REPLY_TO: subject})


@pytest.mark.parametrize("tenant", ["", "a b", "a.b", "t" * 65, "münchen", "a\r\nHr-Tokens: 1"])
def test_tenants_and_requests_are_tokens(tenant: str) -> None:
    with pytest.raises(DecodeError, match=r"header Hr-Tenant: tenant .* will not do"):
        Envelope.from_headers({**WHOLE, headers.TENANT: tenant})
    with pytest.raises(DecodeError, match=r"header Hr-Request: request_id .* will not do"):
        Envelope.from_headers({**WHOLE, headers.REQUEST: tenant})
    with pytest.raises(InvalidName, match=r"tenant .* will not do"):
        Envelope(reply_to=INBOX, tokens=3, tenant=tenant)


@pytest.mark.parametrize("name", [headers.MSG_ID, headers.TRACEPARENT])
@pytest.mark.parametrize("value", ["a\nb", "ü", "x" * 129, "\x7f", "\ufffd"])
def test_what_could_not_have_been_written_is_refused_as_what_came_is(name: str, value: str) -> None:
    with pytest.raises(DecodeError, match=f"header {name} .* will not do"):
        Envelope.from_headers({**WHOLE, name: value})


def test_the_reply_subject_can_be_read_when_other_headers_are_broken() -> None:
    assert headers.reply_to({**WHOLE, headers.TOKENS: "many"}) == INBOX


@pytest.mark.parametrize("name", [headers.TOKENS, headers.DEADLINE])
@pytest.mark.parametrize(
    "value", ["", " 3", "3 ", "3\n", "+3", "-3", "3.0", "3e3", "0x3", "1_000", "٣", "²", str(2**63), "9" * 20, "0" * 20]
)
def test_a_number_is_nothing_but_decimal_digits(name: str, value: str) -> None:
    with pytest.raises(DecodeError, match=f"header {name} is"):
        Envelope.from_headers({**WHOLE, name: value})


@pytest.mark.parametrize("value", ["0", "007", str(2**63 - 1)])
def test_a_number_may_be_as_large_as_63_bits(value: str) -> None:
    assert Envelope.from_headers({**WHOLE, headers.TOKENS: value}).tokens == int(value)


def test_the_number_of_tokens_is_required() -> None:
    with pytest.raises(DecodeError, match="header Hr-Tokens is None"):
        Envelope.from_headers({headers.REPLY_TO: INBOX})


def test_an_error_does_not_repeat_a_long_header() -> None:
    for name in (headers.REPLY_TO, headers.TOKENS, headers.DEADLINE):
        with pytest.raises(DecodeError) as caught:
            Envelope.from_headers({**WHOLE, name: "x" * 100_000})
        assert len(str(caught.value)) < 200


@patient
@given(st.dictionaries(st.sampled_from([*WHOLE, headers.MSG_ID, headers.TRACEPARENT]), st.text()), st.booleans())
def test_any_headers_are_an_envelope_or_an_error(found: dict[str, str], is_whole: bool) -> None:
    try:
        envelope = Envelope.from_headers({**WHOLE, **found} if is_whole else found)
    except DecodeError:
        return
    assert Envelope.from_headers(envelope.to_headers()) == envelope


def test_a_message_that_is_published_anew_keeps_no_orders_to_the_broker() -> None:
    orders = {"Nats-Batch-Id": "b", "Nats-Expected-Stream": "S", "Nats-Msg-Id": "c1-0", "Nats-Rollup": "all"}
    assert headers.passed_on(orders | WHOLE | {"traceparent": "00-ab"}) == WHOLE | {"traceparent": "00-ab"}


def test_a_message_that_is_published_anew_keeps_no_header_that_clients_do_not_publish() -> None:
    odd = {"X(Y)": "a", "a/b": "c", "": "d"}
    assert headers.passed_on(odd | WHOLE) == WHOLE


@pytest.mark.parametrize("name", [headers.MSG_ID, headers.TRACEPARENT])
@pytest.mark.parametrize("value", ["x" * 129, "\x7f", "é", "a\tb"])
def test_a_header_that_cannot_be_sent_cannot_be_read(name: str, value: str) -> None:
    with pytest.raises(DecodeError, match=name):
        Envelope.from_headers(WHOLE | {name: value})


@pytest.mark.parametrize("value", ["\r\nNats-Rollup: all", "a\nNats-Rollup: all", "a\rb"])
def test_a_header_with_others_inside_is_not_published_anew(value: str) -> None:
    assert headers.passed_on({**WHOLE, "Description": value}) == WHOLE


@pytest.mark.parametrize("name", ["a(b", "a/b", "a\x00b", "\x7f", "", '"', "a@b"])
def test_a_header_whose_name_can_be_read_and_not_written_is_not_published_anew(name: str) -> None:
    assert headers.passed_on({**WHOLE, name: "value"}) == WHOLE


@pytest.mark.parametrize(
    ("value", "name"), [("order-7", "order-7"), (None, None), ("", None), ("a b", None), ("a-" * 9999, None)]
)
def test_who_tells_of_a_message_takes_names_from_it_and_nothing_else(value: str | None, name: str | None) -> None:
    found = {} if value is None else {headers.TENANT: value}
    assert headers.name_in(found, headers.TENANT) == name
