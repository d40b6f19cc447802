"""What a worker counts of itself.

Plain numbers, changed on the event loop only. Does not know who reads them.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the start, and what is in hand now.

    Attributes:
        delivered: messages that came in.
        answered: chunks whose result was sent.
        refused: chunks that were answered with an error, for another reason than the next two.
        expired: chunks whose deadline passed before they could run.
        cancelled: chunks that their callers gave up before they could run.
        dead_lettered: messages kept in HR_DEAD; also counted as refused.
        given_back: messages nak'ed by a drain.
        abandoned: messages that could be neither answered nor given back; the broker redelivers them.
        steps: steps that ran to the end.
        failed_steps: steps that raised.
        tokens: tokens of those that ran to the end.
        held_tokens: tokens pulled and not yet answered.
        max_held_tokens: the most that ever were.
    """

    delivered: int = 0
    answered: int = 0
    refused: int = 0
    expired: int = 0
    cancelled: int = 0
    dead_lettered: int = 0
    given_back: int = 0
    abandoned: int = 0
    steps: int = 0
    failed_steps: int = 0
    tokens: int = 0
    held_tokens: int = 0
    max_held_tokens: int = 0

    def hold(self, tokens: int) -> None:
        """Tokens came into this worker's hands, or left them when negative."""
        self.held_tokens += tokens
        self.max_held_tokens = max(self.max_held_tokens, self.held_tokens)
