"""The token budget of one puller: what it may still ask the broker for.

Knows bytes granted, held and free; pure arithmetic. Does not know NATS. A token id takes four bytes of a message, so a
purse of 4 × B bytes never lets more than B tokens be pulled and not yet answered (contracts, limits.py).
"""


class Purse:
    """Bytes of one puller, with at most one pull open at a time.

    Credit that was given to a pull counts as spent until a message arrives against it or the pull ends.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.credit = 0

    @property
    def free(self) -> int:
        """Bytes that a new pull may ask for."""
        return self.limit - self.held - self.credit

    def open_pull(self, size: int) -> None:
        """A pull for `size` bytes was sent."""
        if self.credit or size > self.free:
            raise ValueError(f"This is a bug: a pull of {size} bytes does not fit {self}")
        self.credit = size

    def arrive(self, size: int) -> None:
        """A message of `size` bytes came in against the open pull."""
        self.credit -= min(size, self.credit)
        self.held += size

    def end_pull(self) -> None:
        """The open pull ended; what it did not use is free again."""
        self.credit = 0

    def settle(self, size: int) -> None:
        """A held message of `size` bytes was answered or given back."""
        if size > self.held:
            raise ValueError(f"This is a bug: {size} bytes settled out of {self}")
        self.held -= size

    def __str__(self) -> str:
        return f"purse(limit={self.limit}, held={self.held}, credit={self.credit})"
