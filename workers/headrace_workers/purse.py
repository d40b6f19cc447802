"""The token budget of one class: what its pullers may still ask the broker for.

Knows bytes granted, held and free; pure arithmetic. Does not know NATS. A token id takes four bytes of a message, so a
purse of 4 × B bytes never lets more than B tokens be pulled and not yet answered (contracts, limits.py).
"""


class Purse:
    """Bytes that several pullers share, each of which may have one pull open at a time.

    Who has work takes what the others leave, but each can always have `least`: a queue full of one tenant's work never
    keeps that of another from being pulled.
    """

    def __init__(self, limit: int, least: int = 0) -> None:
        """Make a full one.

        Args:
            limit: bytes that all together may have in hand or on their way.
            least: bytes that are kept for each of them.
        """
        self.limit = limit
        self._least = least
        self._shares: list[Share] = []

    def share(self) -> "Share":
        """One more puller's."""
        added = Share(self)
        self._shares.append(added)
        if len(self._shares) * self._least > self.limit:
            raise ValueError(f"This is a bug: {len(self._shares)} shares of at least {self._least} do not fit {self}")
        return added

    @property
    def held(self) -> int:
        """Bytes of messages in hand."""
        return sum(share.held for share in self._shares)

    @property
    def credit(self) -> int:
        """Bytes that the broker may still send against open pulls."""
        return sum(share.credit for share in self._shares)

    def room(self, share: "Share") -> int:
        """Bytes that a new pull of it may ask for."""
        others = [max(self._least, other.taken) for other in self._shares if other is not share]
        room = self.limit - share.taken - sum(others)
        # What an open pull does not use the others lack as long as it stands, so where there are others it takes no
        # more than half.
        return min(room, max(self.limit // 2, self._least)) if others else room

    def __str__(self) -> str:
        shares = ", ".join(f"{share.held} held and {share.credit} asked for" for share in self._shares)
        return f"a purse of {self.limit} ({shares})"


class Share:
    """Bytes of one puller.

    Credit that was given to a pull counts as spent until a message arrives against it or the pull ends.
    """

    def __init__(self, purse: Purse) -> None:
        """Use `Purse.share`."""
        self._purse = purse
        self.held = 0
        self.credit = 0

    @property
    def taken(self) -> int:
        """Bytes that are held or may come."""
        return self.held + self.credit

    @property
    def free(self) -> int:
        """Bytes that a new pull may ask for."""
        return self._purse.room(self)

    def open_pull(self, size: int) -> None:
        """A pull for `size` bytes was sent."""
        if self.credit or size > self.free:
            raise ValueError(f"This is a bug: a pull of {size} bytes does not fit {self._purse}")
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
            raise ValueError(f"This is a bug: {size} bytes settled out of {self._purse}")
        self.held -= size
