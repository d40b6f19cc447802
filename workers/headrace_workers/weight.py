"""How many bytes a token takes in an online NATS stream.

Knows the messages that came of late. Pure. A message takes about 330 bytes beside its token ids, so a token of a short
query takes eight times what one of a large chunk does: only the mix at hand says what a queue of so many bytes holds.
"""

# Before anything came: what a token takes of texts of 80 tokens. It weighs as much as so many tokens.
_START_BYTES = 8.0
_START_TOKENS = 1000
# Messages after which older ones have lost most of their weight.
_MEMORY = 5000


class Weight:
    """The bytes a token of recent messages."""

    def __init__(self) -> None:
        self._bytes = _START_BYTES * _START_TOKENS
        self._tokens = float(_START_TOKENS)

    @property
    def bytes_per_token(self) -> float:
        """Bytes that the NATS stream holds for one token."""
        return self._bytes / self._tokens

    def add(self, stored_bytes: int, tokens: int) -> None:
        """A message of so many bytes and tokens came.

        Few large ones weigh as much as many small ones: so what is queued is found to be more soon, and less slowly.
        """
        kept = 1 - 1 / _MEMORY
        self._bytes = kept * self._bytes + stored_bytes
        self._tokens = kept * self._tokens + tokens
