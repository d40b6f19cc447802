"""What every request of an API passes before its body is read: who is it, and is there room.

Knows keys, tenants and slots. Does not know the APIs.
"""

from litestar.datastructures import Headers
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from headrace.gateway.keys import Keys, is_tenant
from headrace.gateway.limits import Slots
from headrace.gateway.problems import Kind, Refused

_TENANT = "X-Headrace-Tenant"


class Gate(ASGIMiddleware):
    """Lets requests in."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, keys: Keys | None, slots: Slots) -> None:
        self._keys = keys
        self._slots = slots

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve one request.

        Raises:
            Refused: its key is wrong, its tenant no name, or there is no room.
        """
        scope["auth"] = self._tenant(Headers.from_scope(scope))
        with self._slots.one():
            await next_app(scope, receive, send)

    def _tenant(self, headers: Headers) -> str | None:
        if self._keys is None:
            name = headers.get(_TENANT)
            if name is not None and not is_tenant(name):
                text = f"{_TENANT} is {name[:80]!r}: use 1 to 64 letters, digits, _ and -"
                raise Refused(Kind.MALFORMED, text, field=_TENANT)
            return name
        owner = self._keys.owner(headers.get("Authorization", ""))
        if owner is None:
            raise Refused(Kind.UNAUTHORIZED, "no valid API key: send the header Authorization: Bearer KEY")
        return owner
