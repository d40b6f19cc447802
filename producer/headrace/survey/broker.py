"""The broker: which server answers, how fast, and what JetStream holds for this account.

Knows the connection and $JS.API.INFO. Does not know NATS streams.
"""

from dataclasses import dataclass

from headrace_contracts import connection
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The server that the connection leads to.

    Attributes:
        server: its name.
        version: of nats-server.
        cluster: that it belongs to; None where it stands alone.
        rtt_s: seconds of a PING and its answer.
    """

    server: str
    version: str
    cluster: str | None
    rtt_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What JetStream holds for the account, and may hold.

    Attributes:
        memory_bytes: in memory.
        storage_bytes: on disk.
        max_memory_bytes: that it may hold in memory; None without a limit.
        max_storage_bytes: that it may hold on disk; None without a limit.
        num_streams: NATS streams of it.
        num_consumers: consumers of it.
        num_api_errors: requests to the JetStream API that failed, of all clients, since the server started.
    """

    memory_bytes: int
    storage_bytes: int
    max_memory_bytes: int | None
    max_storage_bytes: int | None
    num_streams: int
    num_consumers: int
    num_api_errors: int


async def read_broker(nats: NatsClient) -> Broker:
    """Ask the server for a sign of life.

    Raises:
        nats.errors.Error: it gives none.
    """
    rtt_s = await nats.rtt()
    found = connection.server_info(nats)
    return Broker(
        server=found.get("server_name", ""),
        version=found.get("version", ""),
        cluster=found.get("cluster") or None,
        rtt_s=rtt_s,
    )


async def read_account(nats: NatsClient) -> Account:
    """Ask JetStream.

    Raises:
        nats.errors.Error: it does not answer, or there is none for this account.
    """
    found = await api(nats, "INFO") or {}
    # With limits by tier ("R1", "R3") the whole account has none of its own.
    limits = found.get("limits") or {}
    return Account(
        memory_bytes=found["memory"],
        storage_bytes=found["storage"],
        max_memory_bytes=_limit(limits.get("max_memory", -1)),
        max_storage_bytes=_limit(limits.get("max_storage", -1)),
        num_streams=found["streams"],
        num_consumers=found["consumers"],
        num_api_errors=found["api"]["errors"],
    )


def _limit(value: int) -> int | None:
    return value if value >= 0 else None
