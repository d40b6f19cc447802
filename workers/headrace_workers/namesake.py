"""Whether another worker has this one's name.

Pure. Knows that a worker hears its own announcements, each once. Does not know NATS, nor what a name is for.
"""


class Namesake:
    """Counts what is said and heard under one name: who hears it more often than it spoke is not alone with it."""

    def __init__(self) -> None:
        self._num_unheard = 0
        self._is_told = False

    def listen(self) -> None:
        """The connection is new: what was said before and not heard yet never will be."""
        self._num_unheard = 0

    def spoke(self) -> None:
        """This worker announces itself now."""
        self._num_unheard += 1

    def heard(self) -> bool:
        """Somebody announced itself under the name; whether that is the first sign of another one."""
        if self._num_unheard:
            self._num_unheard -= 1
            return False
        was_told, self._is_told = self._is_told, True
        return not was_told
