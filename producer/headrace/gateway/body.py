"""How a request's body becomes what its handler takes.

Knows JSON and the size of bodies. Does not know fields: handlers declare them, and the OpenAPI document is made of the
same declarations.
"""

import asyncio
import gc
import re
from functools import cache
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import InternalServerException

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
            Refused: it is no JSON, or not of the declared type.
        """
        body = await self.body()
        wanted = self.route_handler.parsed_fn_signature.parameters["data"].annotation
        try:
            return _decode(body, wanted)
        except msgspec.ValidationError as error:
            text, field = _placed(str(error))
            raise Refused(Kind.INVALID, text, field=field) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(Kind.MALFORMED, f"the body is no JSON: {error}") from None


@cache
def _decoder(wanted: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(wanted)


def _decode(body: bytes, wanted: Any) -> Any:
    decoder = _decoder(wanted)
    if len(body) <= _LARGE or not gc.isenabled():
        return decoder.decode(body)
    # The collector would look at all that is decoded so far, over and over: with many small lists that takes five times
    # as long as decoding. Nothing else runs meanwhile, for decoding holds Python's lock.
    gc.disable()
    try:
        return decoder.decode(body)
    finally:
        gc.enable()


def _placed(text: str) -> tuple[str, str | None]:
    """A message of msgspec with its place first, as our own errors have it, and the field by itself."""
    what, at, place = text.partition(" - at `$")
    if at:
        path = place.rstrip("`").lstrip(".")
        return f"{path}: {what}", path.partition("[")[0].partition(".")[0] or None
    named = _NAMED.search(what)  # one that is unknown or missing has no place
    return what, named and named[1]
