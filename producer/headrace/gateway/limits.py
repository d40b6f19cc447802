"""How much a client may ask for, and how much is served at a time.

Knows the numbers and counts requests. Does not know what is asked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from headrace.errors import InputError
from headrace.gateway.problems import Kind, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may come to, and how many there may be.

    Attributes:
        max_body_bytes: bytes of a request's body.
        max_items: texts or documents of a request.
        max_tokens: tokens of a request, after what is too long was cut.
        max_concurrent: requests that are served at a time; one more is refused.
        max_connections: open connections, idle ones included; more wait until one is closed.
        max_timeout_s: the longest that a caller may wait.
        max_body_s: seconds in which a body must have come in.
    """

    max_body_bytes: int = 2_000_000
    max_items: int = 2048
    max_tokens: int = 300_000
    max_concurrent: int = 512
    max_connections: int = 4096
    max_timeout_s: float = 600
    max_body_s: float = 30

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise InputError(f"{field.name} is {value}: it must be above 0")

    def check_items(self, num_items: int, field: str) -> None:
        """Refuse a request with too many.

        Raises:
            Refused: it holds more than `max_items`.
        """
        if num_items > self.max_items:
            text = f"{field} has {num_items} items: at most {self.max_items} a request, so split it"
            raise Refused(Kind.TOO_LARGE, text, field=field)


class Slots:
    """Counts the requests that are served now."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place while the context lasts.

        Raises:
            Refused: all are taken.
        """
        if self._num_taken == self._limit:
            text = f"this gateway serves {self._limit} requests at a time: retry later, or ask another one"
            raise Refused(Kind.OVERLOADED, text, retry_after_s=1)
        self._num_taken += 1
        try:
            yield
        finally:
            self._num_taken -= 1
