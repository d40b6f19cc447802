"""What a PubAck says, whoever wrote it."""

import pytest
from headrace.bulk import publisher
from headrace.errors import JobFailed
from headrace.outcome import Outcome, read_ack

NONSENSE = [b"{", b"\xff", b"[]", b"null", b"7", b'{"error": "no"}', b'{"error": {"err_code": []}}', b"[" * 99_999]


@pytest.mark.parametrize(
    ("data", "outcome", "ack"),
    [
        (b"", Outcome.MISSING, publisher.Ack.LATER),
        (b'{"stream": "S", "seq": 1}', Outcome.STORED, publisher.Ack.STORED),
        (b'{"error": {"code": 503, "err_code": 10077}}', Outcome.FULL, publisher.Ack.FULL),
        (b'{"error": {"code": 503, "err_code": 1}}', Outcome.MISSING, publisher.Ack.LATER),
        (b'{"error": {"code": 400, "err_code": 1}}', Outcome.MISSING, publisher.Ack.APART),
    ],
)
def test_a_puback_says_whether_a_chunk_is_stored(data: bytes, outcome: Outcome, ack: publisher.Ack) -> None:
    assert read_ack(data) is outcome
    assert publisher.read_ack(data) is ack


@pytest.mark.parametrize("data", NONSENSE)
def test_nonsense_confirms_nothing(data: bytes) -> None:
    assert read_ack(data) is Outcome.UNCONFIRMED
    with pytest.raises(JobFailed, match="the broker sent no PubAck"):
        publisher.read_ack(data)
