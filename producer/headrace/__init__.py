"""Headrace's client: `await headrace.Client.connect(url)`, then `await client.embed(texts)` or `await client.score(…)`.

Importing it never imports torch: models live in workers.
"""

from headrace_contracts import ErrorCode, ModelSpec
from headrace_contracts.credentials import Credentials

from headrace.client import Client
from headrace.embeddings import Embeddings
from headrace.errors import (
    AccessDenied,
    ConnectionFailed,
    DeadlineExceeded,
    HeadraceError,
    InputError,
    ItemError,
    ItemsFailed,
    LocalFailed,
    ModelChanged,
    ModelNotFound,
    Overloaded,
    RequestFailed,
)
from headrace.hedging import Hedging
from headrace.result import CallUsage
from headrace.scores import Ranked, Scores
from headrace.sync import SyncClient

__all__ = [
    "AccessDenied",
    "CallUsage",
    "Client",
    "ConnectionFailed",
    "Credentials",
    "DeadlineExceeded",
    "Embeddings",
    "ErrorCode",
    "HeadraceError",
    "Hedging",
    "InputError",
    "ItemError",
    "ItemsFailed",
    "LocalFailed",
    "ModelChanged",
    "ModelNotFound",
    "ModelSpec",
    "Overloaded",
    "Ranked",
    "RequestFailed",
    "Scores",
    "SyncClient",
]
