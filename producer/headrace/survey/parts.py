"""The parts of a survey that come from the broker: each is read in its own time, and says why where it could not be.

Knows limits and errors. Does not know what a part is made of.
"""

import asyncio
from collections.abc import Awaitable
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, get_args

from headrace_contracts.api import in_words
from nats.errors import Error as NatsError

from headrace.errors import HeadraceError

Part: TypeAlias = Literal["broker", "account", "streams", "consumers", "models", "fleet", "dead_letters", "jobs"]
PARTS: tuple[Part, ...] = get_args(Part)

# Seconds. A cluster waits four for the leaders of NATS streams that do not answer, then lists the others.
_USUAL_S = 3.0
_LIMITS_S = MappingProxyType({"streams": 6.0, "consumers": 4.0, "broker": 2.0})

T = TypeVar("T")


class Parts:
    """Reads the parts of one survey.

    Attributes:
        missing: why a part is missing, or not whole, for those that are.
    """

    def __init__(self) -> None:
        self.missing: dict[Part, str] = {}

    async def read(self, part: Part, work: Awaitable[T]) -> T | None:
        """Await it within the part's time; None where it failed or took longer."""
        limit_s = _LIMITS_S.get(part, _USUAL_S)
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            self.missing[part] = f"no answer within {limit_s:g} s"
        except (NatsError, OSError, HeadraceError) as error:
            self.missing[part] = in_words(error)
        except (LookupError, TypeError, ValueError) as error:  # as of a server of another version
            self.missing[part] = f"the answer cannot be read: {error!r}"
        return None
