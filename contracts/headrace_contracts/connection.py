"""How both sides connect to nats-server, and whether the connection stands.

Knows nats-py's options: a dead link is noticed within seconds and a lost one is sought for ever, where its defaults
take six minutes and give up after two. Does not know what travels over the connection, nor each side's errors.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import AuthorizationError
from nats.errors import Error as NatsError

from headrace_contracts import topology
from headrace_contracts.errors import ContractError

_SCHEMES = ("nats", "tls", "ws", "wss")


class Unreachable(ContractError):
    """Raised when no nats-server answers at a URL, or not to these credentials; the text says which and why."""


class ServerTooOld(ContractError):
    """Raised when the nats-server is older than the contract needs."""


class _Patient(NatsClient):
    """nats-py's client, mended in two places.

    It hears on when a server answers a PING for which nobody waits any more. nats-py itself sets the result of a future
    that was cancelled, and its loop that reads ends by the error: nothing is heard until two PINGs more are unanswered,
    half a minute later. A server that stood still for a moment is enough.

    And who is cancelled in it is cancelled. nats-py waits for answers by asyncio.wait_for, which before Python 3.12
    returns one that has just come and keeps the cancelling to itself, and while it waits for its buffer to empty it
    takes no notice of it at all. Then a task goes on that was told to end, or past its timeout, and whoever waits for
    its end waits for ever.
    """

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        with _heeding_cancellation():
            return await super().request(subject, payload, timeout, old_style, headers)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        with _heeding_cancellation():
            return await super()._flush_pending(force_flush)


@contextlib.contextmanager
def _heeding_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end, should the task have been cancelled in here and nobody have raised it."""
    task = asyncio.current_task()
    num_before = 0 if task is None else task.cancelling()
    yield
    if task is not None and task.cancelling() > num_before:
        raise asyncio.CancelledError


class Link:
    """Whether the connection stands now, and who is told when that changes.

    Attributes:
        up: set while it stands.
        on_up: called after it was made anew.
        on_down: called after it was lost.
    """

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.on_up: Callable[[], None] = _nothing
        self.on_down: Callable[[], None] = _nothing

    async def went_up(self) -> None:
        """nats-py reconnected."""
        self.up.set()
        self.on_up()

    async def went_down(self) -> None:
        """nats-py lost the connection."""
        self.up.clear()
        self.on_down()


async def connect(
    url: str, *, name: str, inbox: str, timeout_s: float, on_error: Callable[[Exception], None] | None = None
) -> tuple[NatsClient, Link]:
    """Connect to a server that is new enough.

    Args:
        url: one URL, or several of one cluster with commas between.
        name: shown in the server's monitoring.
        inbox: prefix of all inboxes of this connection.
        timeout_s: for the first connection; a lost one is sought until the client is closed.
        on_error: called with each asynchronous error; must not block.

    Raises:
        Unreachable: nothing answers, or the URL or the credentials are wrong.
        ServerTooOld: it is older than topology.MIN_SERVER.
    """
    servers = [_checked(part.strip()) for part in url.split(",")]
    shown = ",".join(map(_without_credentials, servers))
    nats, link = _Patient(), Link()
    last_error: Exception | None = None

    async def remember(error: Exception) -> None:
        nonlocal last_error
        # A server that refuses closes at once, and the next try may see no more than that.
        if last_error is None or not _is_refusal(last_error):
            last_error = error
        if on_error is not None:
            on_error(error)

    try:
        async with asyncio.timeout(timeout_s):
            await nats.connect(
                servers,
                name=name,
                inbox_prefix=inbox,
                error_cb=remember,
                reconnected_cb=link.went_up,
                disconnected_cb=link.went_down,
                ping_interval=10,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type] # seconds; nats-py only sleeps for it
            )
    except (TimeoutError, OSError, NatsError) as error:
        await nats.close()
        reason = last_error or error
        if _is_refusal(reason):
            raise Unreachable(f"nats-server at {shown} refuses these credentials: check user and password") from None
        raise Unreachable(f"no nats-server answers at {shown} ({reason!r})") from error
    found = nats.connected_server_version
    if (found.major, found.minor) < topology.MIN_SERVER:
        await nats.close()
        version, least = f"{found.major}.{found.minor}.{found.patch}", ".".join(map(str, topology.MIN_SERVER))
        raise ServerTooOld(f"nats-server {version} at {shown} is too old: headrace needs {least} or newer")
    link.up.set()
    return nats, link


async def close(nats: NatsClient) -> None:
    """Close a connection, one that is lost too: what nats-py still had to send is lost with it."""
    # It writes to the closed transport all the same. asyncio's own loop then raises OSError, uvloop RuntimeError.
    with contextlib.suppress(OSError, RuntimeError):
        await nats.close()


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, AuthorizationError) or "authorization" in str(error).lower()


def _checked(url: str) -> str:
    """The URL, with the scheme that may be left out.

    Raises:
        Unreachable: it is none.
    """
    full = url if "://" in url else f"nats://{url}"
    try:
        parts = urlsplit(full)
        is_good = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise Unreachable(f"{_without_credentials(url)!r} is no URL of a nats-server: write nats://host:port")
    return full


def _without_credentials(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url


def _nothing() -> None:
    pass
