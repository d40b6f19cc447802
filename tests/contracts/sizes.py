"""The largest messages that the contract allows, for the tests of the byte budget."""

import numpy as np
from headrace_contracts import Chunk, Envelope, Options, subjects

LONGEST = "x" * 64
SUBJECT = subjects.batch(LONGEST, LONGEST)


def largest_chunk(num_tokens: int, num_sequences: int) -> Chunk:
    """A chunk that uses every key, with the longest names and the widest numbers."""
    lengths = np.ones(num_sequences, np.uint32)
    lengths[0] += num_tokens - num_sequences
    return Chunk(
        id=LONGEST,
        task="embed",
        model=LONGEST,
        fingerprint="f" * 64,
        lengths=lengths,
        token_ids=np.full(num_tokens, 2**32 - 1, np.uint32),
        segment_ids=np.full(num_tokens, 255, np.uint8),
        options=Options(dim=2**31 - 1, dtype="f16", normalize=False, raw=True, skip=2**31 - 1),
        job=LONGEST,
        seq=2**63 - 1,
    )


def largest_headers(num_tokens: int) -> dict[str, str]:
    """Every header, each as long as it may be."""
    return Envelope(
        reply_to=".".join(["hr.results", *[LONGEST] * 6]),
        tokens=num_tokens,
        deadline_ms=2**63 - 1,
        tenant=LONGEST,
        msg_id="i" * 80,
        traceparent=f"00-{'a' * 32}-{'b' * 16}-01",
        request_id=LONGEST,
    ).to_headers()


def header_block(headers: dict[str, str]) -> int:
    """Bytes of the headers as NATS writes them."""
    return len("NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n") for name, value in headers.items())
