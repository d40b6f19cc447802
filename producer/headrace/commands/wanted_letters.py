"""Which dead letters a user of `headrace dead` wants: by number, model, job and code.

Knows how numbers and ranges are typed. Does not know flags, nor what is done with the letters.
"""

import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from headrace.dead_letters import DeadLetters
from headrace.errors import InputError
from headrace.letter import Letter

_NUMBERS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class WantedLetters:
    """Which letters somebody wants.

    Attributes:
        ranges: of their numbers, ends included; None wants all.
        model: whom they were for.
        job: that they are a part of.
        code: of their reason.
    """

    ranges: Sequence[tuple[int, int]] | None = None
    model: str | None = None
    job: str | None = None
    code: str | None = None

    async def of(self, letters: DeadLetters) -> AsyncGenerator[Letter]:
        """Those that are there, oldest first."""
        first = 1 if self.ranges is None else min(first for first, _ in self.ranges)
        last = None if self.ranges is None else max(last for _, last in self.ranges)
        async with aclosing(letters.read(first=first, last=last)) as found:
            async for letter in found:
                if self._has(letter):
                    yield letter

    @property
    def is_whole(self) -> bool:
        """Whether all are wanted, of the fleet or of a model, whatever they are."""
        return self.ranges is None and self.job is None and self.code is None

    def missing(self, seen: Collection[int]) -> list[int]:
        """The numbers that were given alone and are not among those that were seen."""
        return [first for first, last in self.ranges or () if first == last and first not in seen]

    def _has(self, letter: Letter) -> bool:
        return (
            (self.ranges is None or any(first <= letter.seq <= last for first, last in self.ranges))
            and self.model in {None, letter.model}
            and self.job in {None, letter.job}
            and self.code in {None, letter.code}
        )


def typed(verb: str, numbers: Sequence[str] | None, *, all_: bool) -> Sequence[tuple[int, int]] | None:
    """Ranges of numbers, as a user of `headrace dead VERB` typed them; None where all are meant.

    Raises:
        InputError: it cannot be told which are meant.
    """
    if bool(numbers) == all_:
        raise InputError(f"say which letters: their numbers, as in `headrace dead {verb} 3 7-9`, or else --all")
    return None if all_ else [_range(each) for each in numbers or ()]


def _range(spelt: str) -> tuple[int, int]:
    found = _NUMBERS.fullmatch(spelt)
    if found is None:
        raise InputError(f"{spelt!r} is no number of a letter: write 3, or 7-9 for some in a row")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 < first <= last:
        raise InputError(f"{spelt!r} is no range: letters are counted from 1, and the first comes first")
    return first, last
