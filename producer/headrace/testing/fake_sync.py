"""FakeSyncClient: a SyncClient over a fleet in memory.

Knows how to put a FakeClient where SyncClient has a Client.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from headrace_contracts import ModelSpec
from headrace_contracts.credentials import Credentials

from headrace.client import Client
from headrace.errors import HeadraceError, ItemError
from headrace.hedging import Hedging
from headrace.sync import SyncClient
from headrace.testing.fake_client import POISON, FakeClient
from headrace.testing.recorded_call import RecordedCall


class FakeSyncClient(SyncClient):
    """A SyncClient for tests; what FakeClient says holds for it too."""

    def __init__(
        self,
        url: str = "nats://127.0.0.1:4222",
        *,
        timeout: float = 5,
        access: Credentials | str | Path | None = None,
        tenant: str | None = None,
        hedging: Hedging | None = None,
        models: Iterable[ModelSpec] | None = None,
        delay_s: float = 0,
    ) -> None:
        """Make a client and its fleet; `url`, `timeout` and `access` are not looked at. See FakeClient."""
        self._fake = FakeClient(models, tenant=tenant, hedging=hedging, delay_s=delay_s)
        super().__init__(url, timeout=timeout, access=access, tenant=tenant, hedging=hedging)

    async def _connect(
        self,
        url: str,
        timeout: float,
        access: Credentials | str | Path | None,
        tenant: str | None,
        hedging: Hedging | None,
    ) -> Client:
        del url, timeout, access, tenant, hedging
        return self._fake

    @property
    def calls(self) -> list[RecordedCall]:
        """See FakeClient.calls."""
        return self._fake.calls

    @property
    def delay_s(self) -> float:
        """See FakeClient.delay_s."""
        return self._fake.delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        self._fake.delay_s = seconds

    def fail_next(self, error: HeadraceError, times: int = 1) -> None:
        """See FakeClient.fail_next."""
        self._fake.fail_next(error, times)

    def fail(self, *, when: Callable[[RecordedCall], bool], error: HeadraceError, times: int | None = None) -> None:
        """See FakeClient.fail."""
        self._fake.fail(when=when, error=error, times=times)

    def fail_text(self, text: str | Callable[[str], bool], error: ItemError = POISON) -> None:
        """See FakeClient.fail_text."""
        self._fake.fail_text(text, error)

    def heal(self) -> None:
        """See FakeClient.heal."""
        self._fake.heal()
