"""Which corpus it is, in one hash: another one as soon as a file came, went or changed. Pure."""

import hashlib
from collections.abc import Iterable

from headrace.bulk.source import Shard


def corpus_of(shards: Iterable[Shard]) -> str:
    """SHA-256 over names and states of all shards, in hex."""
    lines = (f"{shard.name}\t{shard.state}\n".encode("utf-8", "surrogateescape") for shard in shards)
    return hashlib.sha256(b"".join(lines)).hexdigest()
