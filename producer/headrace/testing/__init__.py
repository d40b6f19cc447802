"""A fake of the client for the tests of those who use it: no nats-server, no worker, no model, and quick.

`FakeClient` is a `headrace.Client` and `FakeSyncClient` a `headrace.SyncClient`: arguments, checks, chunks, results and
errors are the real ones. In memory, behind them, is a fleet whose vectors and scores are made of words by hashing.
"""

from headrace.testing.fake_client import FakeClient
from headrace.testing.fake_model import fake_model
from headrace.testing.fake_sync import FakeSyncClient
from headrace.testing.recorded_call import RecordedCall

__all__ = ["FakeClient", "FakeSyncClient", "RecordedCall", "fake_model"]
