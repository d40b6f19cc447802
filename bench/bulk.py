"""Many texts in one `Client.embed` call of the batch class: how much goes through.

It knows texts and the client. It does not know how they are split, queued or batched.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from headrace import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """One call.

    Attributes:
        texts: How many.
        tokens: Special tokens included.
        seconds: From the texts to their vectors.
        texts_per_s: Throughput.
        tokens_per_s: Throughput.
        engine_share: `tokens_per_s` as a part of what the engine alone does on the mixed shape.
    """

    texts: int
    tokens: int
    seconds: float
    texts_per_s: float
    tokens_per_s: float
    engine_share: float

    @classmethod
    async def measure(cls, client: Client, texts: Sequence[str], engine_tokens_per_s: float) -> "Bulk":
        """Warm up with a tenth of the texts, then embed them all.

        Args:
            client: Connected.
            texts: To embed.
            engine_tokens_per_s: What the engine alone does on the mixed shape.
        """
        await client.embed(texts[: -(-len(texts) // 10)], priority="batch", strict=True)
        started = time.perf_counter()
        vectors = await client.embed(texts, priority="batch", strict=True)
        seconds = time.perf_counter() - started
        tokens = vectors.usage.tokens
        return cls(
            texts=len(texts),
            tokens=tokens,
            seconds=seconds,
            texts_per_s=len(texts) / seconds,
            tokens_per_s=tokens / seconds,
            engine_share=tokens / seconds / engine_tokens_per_s,
        )
