"""The fingerprint: one short name for everything that decides which vector a text gets.

Knows what goes in. A chunk tokenised for one fingerprint is refused by a worker of another, never guessed at.
"""

import hashlib


def fingerprint(*, tokenizer: str, revision: str, pooling: str, max_length: int) -> str:
    """Hash what decides a vector into 32 hex digits.

    Args:
        tokenizer: SHA-256 of tokenizer.json, hex.
        revision: hash of weights and configuration, hex.
        pooling: pooling mode.
        max_length: tokens of the longest sequence.
    """
    text = "\n".join((tokenizer, revision, pooling, str(max_length)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
