"""One request to the JetStream API.

Knows how it answers: with what was asked for, with "there is no such thing", or with an error. nats-py's own calls know
neither priority groups nor fields that are newer than it.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from nats.aio.client import Client as NatsClient
from nats.js.errors import APIError

_NOT_FOUND = frozenset({10059, 10014})  # JetStream error codes: no such stream, no such consumer
_TIMEOUT_S = 5


async def api(nats: NatsClient, call: str, config: Mapping[str, object] | None = None) -> dict[str, Any] | None:
    """What the server answers; None when `call` names something that does not exist.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    body = b"" if config is None else json.dumps(config).encode()
    answer = json.loads((await nats.request(f"$JS.API.{call}", body, timeout=_TIMEOUT_S)).data)
    error = answer.get("error")
    if error is None:
        return cast("dict[str, Any]", answer)
    if error.get("err_code") in _NOT_FOUND:
        return None
    raise APIError.from_error(error)
