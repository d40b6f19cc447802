"""FakeClient: a Client over a fleet in memory.

Knows what stands in for NATS and the workers, and hands on what a test orders. All else is the real client.
"""

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from headrace_contracts import ErrorCode, ModelSpec, subjects
from headrace_contracts.connection import Link
from headrace_contracts.credentials import Credentials

from headrace.catalogue import Catalogue
from headrace.client import Client
from headrace.errors import HeadraceError, ItemError
from headrace.hedging import Hedging, check_hedging
from headrace.options import check_count, check_tenant
from headrace.testing.fake_model import checked, fake_model
from headrace.testing.fake_published import FakePublished
from headrace.testing.fake_worker import FakeWorker
from headrace.testing.memory_nats import MemoryNats
from headrace.testing.recorded_call import RecordedCall
from headrace.testing.recorded_calls import RecordedCalls
from headrace.testing.script import Script
from headrace.testing.words import Vocabulary

POISON = ItemError(ErrorCode.NON_FINITE, "the model gives no finite numbers for it")


class FakeClient(Client):
    """A Client for tests; it needs no nats-server, and may be made outside of an event loop.

    A text's vector follows from its words, the same in every process: texts that share words are alike, and only texts
    of the same words in the same order have the same one. A score is the share of the query's words that the document
    has, 0 to 1. Blanks do not count; nothing is known of what words mean.
    """

    def __init__(
        self,
        models: Iterable[ModelSpec] | None = None,
        *,
        tenant: str | None = None,
        hedging: Hedging | None = None,
        max_call_tokens: int | None = None,
        delay_s: float = 0,
    ) -> None:
        """Make a client and its fleet.

        Args:
            models: what the fleet serves, made by `fake_model`; None is "fake-embedder" and "fake-reranker".
            tenant: as for Client.connect.
            hedging: as for Client.connect.
            max_call_tokens: as for Client.connect.
            delay_s: seconds of the event loop's clock from each chunk to its reply; inf for no reply at all.

        Raises:
            InputError: an argument is wrong.
        """
        check_tenant(tenant)
        check_hedging(hedging)
        if max_call_tokens is not None:
            check_count("max_call_tokens", max_call_tokens)
        served = [checked(spec) for spec in (_default_models() if models is None else models)]
        vocabulary, link, client_id = Vocabulary(), Link(), secrets.token_hex(8)
        self._script = Script(delay_s)
        nats = MemoryNats(FakeWorker({spec.name: spec.dim for spec in served}, vocabulary), self._script)
        super().__init__(nats, link, client_id, subjects.inbox(client_id), tenant, hedging, max_call_tokens)
        self._catalogue = Catalogue(FakePublished(served, vocabulary, nats))
        self._calls = RecordedCalls(
            link, self._catalogue, self._exchange, client_id, tenant, max_call_tokens, script=self._script
        )
        link.up.set()

    @classmethod
    async def connect(
        cls,
        url: str = "nats://127.0.0.1:4222",
        *,
        timeout: float = 5,
        access: Credentials | str | Path | None = None,
        tenant: str | None = None,
        hedging: Hedging | None = None,
        max_call_tokens: int | None = None,
    ) -> Self:
        """A client of a fleet of its own, for code that connects by itself.

        Args:
            url: not looked at.
            timeout: not looked at.
            access: not looked at.
            tenant: as for Client.connect.
            hedging: as for Client.connect.
            max_call_tokens: as for Client.connect.
        """
        del url, timeout, access
        return cls(tenant=tenant, hedging=hedging, max_call_tokens=max_call_tokens)

    @property
    def calls(self) -> list[RecordedCall]:
        """The calls whose arguments were right, in order; clear it to forget them."""
        return self._script.calls

    @property
    def delay_s(self) -> float:
        """Seconds from each chunk to its reply; may be set."""
        return self._script.delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        self._script.delay_s = seconds

    def fail_next(self, error: HeadraceError, times: int = 1) -> None:
        """Let the next call raise an error; orders are carried out one after the other.

        An Overloaded comes from the fleet: the client makes it anew from code, text and hint.

        Args:
            error: an instance, such as `Overloaded(ErrorCode.OVERLOADED, "the queue is full", 1.0)`.
            times: how many calls; of an Overloaded, how many attempts.
        """
        self._script.fail(error, None, times)

    def fail(self, *, when: Callable[[RecordedCall], bool], error: HeadraceError, times: int | None = None) -> None:
        """Let some calls raise an error.

        Args:
            when: which calls.
            error: see `fail_next`.
            times: how many of them; None is all, until `heal`.
        """
        self._script.fail(error, when, times)

    def fail_text(self, text: str | Callable[[str], bool], error: ItemError = POISON) -> None:
        """Let texts and documents have no vector or score, until `heal`.

        Args:
            text: the very text, or whether one is meant.
            error: what stands in `.errors`.
        """
        self._script.fail_text(text, error)

    def heal(self) -> None:
        """Forget all failures that were ordered, and the delay."""
        self._script.heal()


def _default_models() -> tuple[ModelSpec, ...]:
    return fake_model("fake-embedder"), fake_model("fake-reranker", tasks=("score",))
