"""The dead letters that a user of `headrace dead rm` is about to forget: found first, so that somebody may be asked.

Knows that all letters, or all of a model, go at once, and others one by one. Does not know flags, nor who is asked.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from headrace_contracts.errors import InvalidName
from nats.aio.client import Client as NatsClient

from headrace.commands.wanted_letters import WantedLetters
from headrace.dead_letters import DeadLetters
from headrace.errors import InputError


@dataclass(slots=True)
class DoomedLetters:
    """The letters that somebody wants removed.

    Attributes:
        count: how many.
        numbers: theirs; None where all of HR_DEAD, or of a model, are meant, which may be very many.
        last: number of the last that was ever kept when they were counted.
        missing: numbers that were given and are of no such letter.
    """

    count: int
    numbers: Sequence[int] | None = None
    last: int = 0
    missing: Sequence[int] = ()


async def find(nats: NatsClient, wanted: WantedLetters) -> DoomedLetters:
    """Those of the wanted letters that are there.

    Raises:
        InputError: no model can have that name.
        ConnectionFailed: nats-server does not answer.
    """
    letters = DeadLetters(nats)
    if wanted.is_whole:
        try:
            count, last = await letters.count(wanted.model)
        except InvalidName as error:
            raise InputError(str(error)) from error
        return DoomedLetters(count, last=last)
    async with aclosing(wanted.of(letters)) as found:
        numbers = [letter.seq async for letter in found]
    return DoomedLetters(len(numbers), numbers, missing=wanted.missing(numbers))


async def remove(nats: NatsClient, wanted: WantedLetters, found: DoomedLetters) -> None:
    """Forget them; those that came after they were found stay.

    Raises:
        ConnectionFailed: nats-server does not answer.
    """
    letters = DeadLetters(nats)
    if found.numbers is None:
        await letters.remove_all(found.last, wanted.model)
    for number in found.numbers or ():
        await letters.remove(number)
