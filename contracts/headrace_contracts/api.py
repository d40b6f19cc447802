"""One request to the JetStream API.

Knows how it answers: with what was asked for, with "there is no such thing", with an error, or with nonsense. nats-py's
own calls know neither priority groups nor fields that are newer than it.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import APIError

_NOT_FOUND = frozenset({10059, 10014})  # JetStream error codes: no such stream, no such consumer
TIMEOUT_S = 5.0
# Of an error: nats-py takes no field that it does not know.
_ERROR = ("code", "err_code", "description")


class Unreadable(NatsError):
    """Raised when what answers does not speak the JetStream API."""


async def api(
    nats: NatsClient, call: str, config: Mapping[str, object] | None = None, timeout_s: float = TIMEOUT_S
) -> dict[str, Any] | None:
    """What the server answers; None when `call` names something that does not exist.

    Args:
        nats: the connection.
        call: the subject after `$JS.API.`.
        config: what is asked for, if anything is.
        timeout_s: for the answer.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses, or its answer cannot be read.
    """
    body = b"" if config is None else json.dumps(config).encode()
    return read_answer((await nats.request(f"$JS.API.{call}", body, timeout=timeout_s)).data)


def in_words(error: BaseException) -> str:
    """What an error says, and if it says nothing, what it is: those of the JetStream API do not tell by their repr."""
    return str(error) or repr(error)


def read_answer(data: bytes) -> dict[str, Any] | None:
    """An answer of the JetStream API; None when it says that there is no such thing.

    Raises:
        nats.errors.Error: it says why it refuses, or cannot be read.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as cause:
        raise Unreadable(f"an answer of the JetStream API is no JSON: {cause}") from cause
    error = answer.get("error") if isinstance(answer, dict) else answer
    if isinstance(answer, dict) and error is None:
        return cast("dict[str, Any]", answer)
    if not isinstance(answer, dict) or not isinstance(error, dict):
        raise Unreadable(f"an answer of the JetStream API is {data[:200]!r}")
    code = error.get("err_code")
    if isinstance(code, int) and code in _NOT_FOUND:
        return None
    raise APIError.from_error({name: error.get(name) for name in _ERROR})
