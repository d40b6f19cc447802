"""How both sides connect to nats-server, and whether the connection stands.

Knows nats-py's options: a dead link is noticed within seconds and a lost one is sought for ever, where its defaults
take six minutes and give up after two; sooner where somebody waits (doubt.py). What is mended of it is in patient.py.
Does not know what travels over the connection, nor each side's errors.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace_contracts import subjects, tls, topology
from headrace_contracts.credentials import Credentials
from headrace_contracts.doubt import Doubt
from headrace_contracts.errors import ContractError
from headrace_contracts.patient import Patient, Unreadable
from headrace_contracts.refusal import NotAllowed, is_refusal

logger = logging.getLogger(__name__)

_SCHEMES = ("nats", "tls", "ws", "wss")
_ENCRYPTED = ("tls", "wss")
_RECONNECT_S = 0.2
_GIVE_UP_S = 0.2
# Different things that the server does not allow, until no more of them are logged.
_MOST_SAID = 100
# Between tries with credentials that the server refuses, or without the right certificates: people have to mend that.
_MAX_RECONNECT_S = 5.0
_SILENT = (
    "what is there takes the connection and says nothing: it stands still, or its tls {} has handshake_first, which "
    "the access file must then have under [tls], too"
)


class Unreachable(ContractError):
    """Raised when no nats-server answers at a URL, or not as it should; the text says which and why."""


class NoUrl(Unreachable):
    """Raised when a URL is none of a nats-server."""


class Refused(Unreachable):
    """Raised when a nats-server answers and does not take these credentials."""


class TlsFailed(Unreachable):
    """Raised when a nats-server answers and no encrypted connection to it comes about."""


class ServerTooOld(ContractError):
    """Raised when the nats-server is older than the contract needs."""


class Link:
    """Whether the connection stands now, and who is told when that changes.

    Attributes:
        up: set while it stands.
        on_up: called after it was made anew.
        on_down: called after it was lost.
        on_not_allowed: called when the server refuses something that was published or subscribed; must not block.
        doubt: to be called by who has waited in vain for what the server says at once when it is well; it returns at
            once. A server that then does not answer is left for another one.
    """

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.on_up: Callable[[], None] = _nothing
        self.on_down: Callable[[], None] = _nothing
        self.on_not_allowed: Callable[[NotAllowed], None] = _no_matter
        self.doubt: Callable[[], None] = _nothing

    async def went_up(self) -> None:
        """nats-py reconnected."""
        self.up.set()
        self.on_up()

    async def went_down(self) -> None:
        """nats-py lost the connection."""
        self.up.clear()
        self.on_down()


async def connect(
    url: str,
    *,
    name: str,
    inbox: str,
    timeout_s: float,
    access: Credentials | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> tuple[NatsClient, Link]:
    """Connect to a server that is new enough.

    Args:
        url: one URL, or several of one cluster with commas between.
        name: shown in the server's monitoring.
        inbox: prefix of all inboxes of this connection; see inbox_of.
        timeout_s: for the first connection; a lost one is sought until the client is closed.
        access: who connects; None takes what stands in the URL, or nothing.
        on_error: called with each asynchronous error; must not block.

    Raises:
        Unreachable: nothing answers, or the URL is wrong.
        TlsFailed: TLS does not come about.
        Refused: the credentials are wrong.
        CredentialsError: a file of the credentials cannot be used.
        ServerTooOld: it is older than topology.MIN_SERVER.
    """
    servers = servers_of(url)
    link = Link()
    demands_tls = any(urlsplit(server).scheme in _ENCRYPTED for server in servers)
    seen: set[str] = set()

    def not_allowed(error: NotAllowed) -> None:
        # Said once: a pull is tried again and again. Consumers and jobs have new names each time, without end.
        if str(error) not in seen and len(seen) < _MOST_SAID:
            seen.add(str(error))
            logger.error("%s", error)
        link.on_not_allowed(error)

    nats = Patient(access, not_allowed, tls=demands_tls or (access is not None and access.tls is not None))
    link.doubt = Doubt(nats).cast
    seeking = _Seeking(nats, servers, on_error or _ignore)

    async def went_up() -> None:
        seeking.found()
        await link.went_up()

    try:
        async with asyncio.timeout(timeout_s):
            await nats.connect(
                servers,
                name=name,
                inbox_prefix=inbox,
                error_cb=seeking.failed,
                reconnected_cb=went_up,
                disconnected_cb=link.went_down,
                ping_interval=10,
                max_reconnect_attempts=-1,
                reconnect_time_wait=_RECONNECT_S,  # type: ignore[arg-type] # seconds; nats-py only sleeps for it
                **_options(access),
            )
    except (TimeoutError, OSError, NatsError) as error:
        await _give_up(nats)
        raise seeking.verdict(error) from (None if seeking.is_hopeless else error)
    found = nats.connected_server_version
    if (found.major, found.minor) < topology.MIN_SERVER:
        await nats.close()
        version, least = f"{found.major}.{found.minor}.{found.patch}", ".".join(map(str, topology.MIN_SERVER))
        raise ServerTooOld(f"nats-server {version} at {seeking.shown} is too old: headrace needs {least} or newer")
    seeking.found()
    link.up.set()
    return nats, link


def servers_of(url: str) -> list[str]:
    """The URL of each server, with the scheme that may be left out.

    Args:
        url: one, or several of one cluster with commas between.

    Raises:
        NoUrl: one of them is none.
    """
    return [_checked(part.strip()) for part in url.split(",")]


def inbox_of(client: str, access: Credentials | None) -> str:
    """Prefix of all inboxes of a client: under access control it lies under that of the user."""
    return subjects.inbox(client, None if access is None else access.name)


def server_info(nats: NatsClient) -> Mapping[str, Any]:
    """What the server of a connection said of itself, of which nats-py shows but a part (INFO of its protocol)."""
    return nats._server_info  # noqa: SLF001 - see above


def is_of_cluster(nats: NatsClient) -> bool:
    """Whether the server of a connection has others beside it."""
    return bool(server_info(nats).get("cluster"))


async def close(nats: NatsClient) -> None:
    """Close a connection, one that is lost too: what nats-py still had to send is lost with it."""
    # A connection may be lost before nats-py knows of it, which then writes to the closed transport: asyncio's own loop
    # raises OSError, over TLS AttributeError, and uvloop RuntimeError.
    with contextlib.suppress(OSError, RuntimeError, AttributeError):
        await nats.close()


async def _give_up(nats: NatsClient) -> None:
    """Close what has never stood."""
    # asyncio never says that a connection whose TLS failed is closed.
    with contextlib.suppress(TimeoutError, OSError, RuntimeError):
        async with asyncio.timeout(_GIVE_UP_S):
            await nats.close()


class _Seeking:
    """The search for a server: the first one ends where no server will do, a later one goes on, in longer pauses."""

    def __init__(self, nats: Patient, servers: list[str], on_error: Callable[[Exception], None]) -> None:
        self.shown = ",".join(map(_without_credentials, servers))
        self._nats = nats
        self._num_servers = len(servers)
        self._on_error = on_error
        self._is_first = True
        self._last: Exception | None = None
        self._hopeless: list[Exception] = []

    @property
    def is_hopeless(self) -> bool:
        """Whether each server has said what no further try will change."""
        return len(self._hopeless) >= self._num_servers

    def found(self) -> None:
        """There is a connection."""
        self._is_first = False
        self._hopeless.clear()
        self._nats.options["reconnect_time_wait"] = _RECONNECT_S

    async def failed(self, error: Exception) -> None:
        """A try has failed, or something else went wrong.

        Raises:
            NatsError: to end the first search.
        """
        self._last = error
        self._on_error(error)
        if _reason(error) is None:
            return
        self._hopeless.append(error)
        if self._is_first:
            if self.is_hopeless:
                raise error
            return
        wait_s = self._nats.options["reconnect_time_wait"]
        self._nats.options["reconnect_time_wait"] = min(2 * wait_s, _MAX_RECONNECT_S)
        if len(self._hopeless) == 1:
            logger.warning("nats-server at %s: %s; it is asked again until it agrees", self.shown, _reason(error))

    def verdict(self, error: Exception) -> Unreachable:
        """What to tell of a first search that has failed."""
        cause = next(iter(self._hopeless), None)
        if cause is not None:
            kind = Refused if _is_refusal(cause) else TlsFailed
            return kind(f"nats-server at {self.shown}: {_reason(cause)}")
        why = _SILENT if self._nats.is_silent else repr(self._last or error)
        return Unreachable(f"no nats-server answers at {self.shown} ({why})")


def _options(access: Credentials | None) -> dict[str, Any]:
    """Who connects, as nats-py takes it."""
    if access is None:
        return {}
    found: dict[str, Any] = {"nkeys_seed_str": access.seed, "token": access.token}
    found |= {"user": access.user, "password": access.password}
    if access.creds is not None:
        found |= {"user_jwt_cb": access.creds.jwt, "signature_cb": access.creds.sign}
    if access.tls is not None:
        found |= {"tls": access.tls.context(), "tls_handshake_first": access.tls.handshake_first}
    return found


def _reason(error: Exception) -> str | None:
    """What is wrong, if trying again changes nothing of it."""
    if _is_refusal(error):
        return "it refuses these credentials: check the access file, or user and password in the URL, against its users"
    return str(error) if isinstance(error, Unreadable) else tls.advice(error)


def _is_refusal(error: Exception) -> bool:
    return is_refusal(str(error))


def _checked(url: str) -> str:
    """The URL, with the scheme that may be left out.

    Raises:
        NoUrl: it is none.
    """
    full = url if "://" in url else f"nats://{url}"
    try:
        parts = urlsplit(full)
        is_good = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise NoUrl(f"{_without_credentials(url)!r} is no URL of a nats-server: write nats://host:port")
    return full


def _without_credentials(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url


def _nothing() -> None:
    pass


def _no_matter(_: NotAllowed) -> None:
    pass


def _ignore(_: Exception) -> None:
    pass
