"""How a request's body becomes what its handler takes.

Knows JSON and the size of bodies. Does not know fields: handlers declare them, and the OpenAPI document is made of the
same declarations.
"""

import asyncio
import re
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import InternalServerException

from headrace.gateway import large
from headrace.gateway.limits import Limits
from headrace.gateway.problems import Kind, Refused

_LARGE = 65_536  # bytes
_NAMED = re.compile("field `([^`]+)`")


class Body(Request[None, "str | None", State]):
    """A request whose JSON is decoded once, strictly, into the type that the handler declares as `data`.

    Its `auth` is the tenant.
    """

    async def body(self) -> bytes:
        """All of it, in time.

        Raises:
            Refused: it is empty, or did not come.
            RequestEntityTooLarge: it is larger than allowed; found before all of it is read.
        """
        limits: Limits = self.app.state.limits
        # Not opened here: a small one may hold a large one, and the limits are there to be kept.
        if (encoding := self.headers.get("content-encoding", "identity").lower()) != "identity":
            raise Refused(Kind.ENCODED, f"content-encoding is {encoding:.40}: send the body as it is")
        try:
            async with asyncio.timeout(limits.max_body_s):
                body = await super().body()
        except InternalServerException:  # Litestar's word for it
            raise Refused(Kind.CLIENT_GONE, "the client has gone") from None
        except TimeoutError:
            raise Refused(Kind.SLOW_BODY, f"the body did not come in within {limits.max_body_s:g} s") from None
        if not body:
            raise Refused(Kind.MALFORMED, "the body is empty: send JSON")
        return body

    async def json(self) -> Any:
        """The decoded body.

        Raises:
            Refused: it is no JSON, or not of the declared type, or holds too much.
        """
        body = await self.body()
        wanted = self.route_handler.parsed_fn_signature.parameters["data"].annotation
        try:
            if len(body) <= _LARGE:
                return large.decoder(wanted).decode(body)
            return await large.decode(body, wanted, self.app.state.limits)
        except msgspec.ValidationError as error:
            text, field = _placed(str(error))
            raise Refused(Kind.INVALID, text, field=field) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(Kind.MALFORMED, f"the body is no JSON: {error}") from None


def _placed(text: str) -> tuple[str, str | None]:
    """A message of msgspec with its place first, as our own errors have it, and the field by itself."""
    what, at, place = text.partition(" - at `$")
    if at:
        path = place.rstrip("`").lstrip(".")
        return f"{path}: {what}", path.partition("[")[0].partition(".")[0] or None
    named = _NAMED.search(what)  # one that is unknown or missing has no place
    return what, named and named[1]
