"""How this package reaches nats-server, and what it says when it cannot.

Knows the errors of this side. Does not know what the connection is for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace_contracts import CredentialsError, connection
from headrace_contracts.connection import Link
from headrace_contracts.credentials import Credentials
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.js.errors import ServiceUnavailableError

from headrace.errors import AccessDenied, ConnectionFailed, InputError


async def reach(
    url: str, *, name: str, client_id: str, timeout_s: float, access: Credentials | None = None
) -> tuple[NatsClient, Link]:
    """Connect; whoever asks closes it by connection.close.

    Args:
        url: one URL, or several of one cluster with commas between.
        name: shown in the server's monitoring.
        client_id: a token, in the prefix of all its inboxes.
        timeout_s: for the first connection; a lost one is sought until it is closed.
        access: who connects; None takes what stands in the URL, or nothing.

    Raises:
        AccessDenied: the server does not take these credentials.
        ConnectionFailed: nothing answers, or the server is too old.
        InputError: the URL is none, or the credentials cannot be used.
    """
    try:
        return await connection.connect(
            url, name=name, inbox=connection.inbox_of(client_id, access), timeout_s=timeout_s, access=access
        )
    except connection.Refused as error:
        raise AccessDenied(str(error)) from error
    except (CredentialsError, connection.NoUrl) as error:
        raise InputError(str(error)) from error
    except connection.TlsFailed as error:
        raise ConnectionFailed(str(error)) from error
    except connection.Unreachable as error:
        raise ConnectionFailed(f"{error}: start one with `headrace up`, or check the URL") from error
    except connection.ServerTooOld as error:
        raise ConnectionFailed(str(error)) from error


@asynccontextmanager
async def reached(
    url: str, *, name: str, client_id: str, timeout_s: float, access: Credentials | None = None
) -> AsyncIterator[tuple[NatsClient, Link]]:
    """The same, closed when the context ends.

    Raises:
        AccessDenied: also for what was asked of the server in the context and is not allowed.
    """
    nats, link = await reach(url, name=name, client_id=client_id, timeout_s=timeout_s, access=access)
    try:
        yield nats, link
    except NotAllowed as error:
        raise AccessDenied(str(error)) from error
    finally:
        await connection.close(nats)


def check_url(url: str) -> None:
    """See that a URL, or several with commas between, may be one of a nats-server.

    Raises:
        InputError: it is none.
    """
    try:
        connection.servers_of(url)
    except connection.NoUrl as error:
        raise InputError(str(error)) from error


def read_access(access: Credentials | str | Path | None) -> Credentials | None:
    """The credentials, or those of an access file.

    Raises:
        InputError: the file cannot be used.
    """
    if access is None or isinstance(access, Credentials):
        return access
    try:
        return Credentials.read(Path(access))
    except (CredentialsError, TypeError) as error:
        raise InputError(str(error)) from error


def failure(doing: str, error: Exception) -> ConnectionFailed:
    """What a request to nats-server that has failed comes to; `doing` tells what it was for."""
    if isinstance(error, NotAllowed):
        return AccessDenied(str(error))
    if isinstance(error, ServiceUnavailableError) and error.err_code is None:  # nobody hears JetStream's subjects
        return ConnectionFailed(
            f"{doing}: nobody answers for JetStream: start nats-server with -js, or jetstream {{}}; of a cluster, "
            "enough servers must be up to choose a leader"
        )
    return ConnectionFailed(f"{doing}: {error}")
