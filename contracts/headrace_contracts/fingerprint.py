"""The fingerprint: one short name for everything that decides which vector or score a text gets.

Knows what goes in. A chunk tokenised for one fingerprint is refused by a worker of another, never guessed at.
"""

import hashlib

from headrace_contracts.messages import PairTemplate


def fingerprint(
    *, tokenizer: str, revision: str, pooling: str, max_length: int, pair_template: PairTemplate | None = None
) -> str:
    """Hash what decides a row into 32 hex digits.

    Args:
        tokenizer: SHA-256 of tokenizer.json, hex.
        revision: hash of weights and configuration, hex.
        pooling: pooling mode.
        max_length: tokens of the longest sequence.
        pair_template: how pairs are joined, if not by tokenizer.json.
    """
    parts = [tokenizer, revision, pooling, str(max_length)]
    if pair_template is not None:
        # Hashed one by one: they hold newlines of their own.
        parts += map(_sha256, (pair_template.prefix, pair_template.body, pair_template.suffix))
    return _sha256("\n".join(parts))[:32]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
