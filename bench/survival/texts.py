"""Texts out of a seed: short and long ones, in several scripts, and those that are hardly any.

Pure. Any tokenizer takes them; none comes to more than some 200 tokens.
"""

import random
from collections.abc import Callable

_ALPHABETS = ("etaoinshrdlucmfwypvbgk", "аеинопрстув", "的一是不了人我在有他", "άέήίόύώλμν")
# Most texts are of the first kind: what a tokenizer does is then what it does in earnest.
_WEIGHTS = (12, 1, 1, 1)
_ODD = ("", " ", "\n\t ", "\x00", "a\x00b", "🛶" * 3, "e\u0301" * 5, "[CLS] [SEP] [PAD]", "-" * 100)
_MOST_WORDS, _MOST_LETTERS = 24, 7
_ODD_ONE_IN = 20


def texts(seed: int, num: int) -> list[str]:
    """So many, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - they are to be the same each time
    kinds: list[Callable[[random.Random], str]] = [_odd, *[_sentence] * (_ODD_ONE_IN - 1)]
    return [chance.choice(kinds)(chance) for _ in range(num)]


def _odd(chance: random.Random) -> str:
    return chance.choice(_ODD)


def _sentence(chance: random.Random) -> str:
    (alphabet,) = chance.choices(_ALPHABETS, _WEIGHTS)
    words = ("".join(chance.choices(alphabet, k=chance.randint(1, _MOST_LETTERS))) for _ in range(_words(chance)))
    return " ".join(words)


def _words(chance: random.Random) -> int:
    # Queries are mostly short.
    return min(_MOST_WORDS, 1 + int(chance.expovariate(1 / 6)))
