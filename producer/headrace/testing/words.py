"""Words in the place of tokens: what a fake model has instead of a tokenizer.json.

A word or a punctuation mark is one token; special tokens stand around texts and pairs as BERT's do. Speaks as the Rust
tokenizer does, as far as tokens.py and pairs.py ask it, so that they cut, count and join as they do for real models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

CLS, SEP = 1, 2
VOCAB_SIZE = 2**31 - 1
_NUM_SPECIAL = 3
_STEM = 5
# Scripts without blanks between words go by the letter.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")


class Vocabulary:
    """Numbers for words, the same in every process, and what words have in common: water, Water and waters begin alike.

    Ids have no room for the latter, so it is remembered.
    """

    def __init__(self) -> None:
        self._families: dict[int, int] = {}

    def token_id(self, word: str) -> int:
        """The token id of a word; two words have the same one once in two thousand million."""
        token_id = _NUM_SPECIAL + _hash(word) % (VOCAB_SIZE - _NUM_SPECIAL)
        self._families[token_id] = _hash(word.casefold()[:_STEM])
        return token_id

    def family(self, token_id: int) -> int:
        """A number that words have in common which begin alike; an id that no word was given is alone."""
        return self._families.get(token_id, token_id)


def _hash(text: str) -> int:
    # Not hash(): it differs from one process to the next.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text or pair as token ids; see tokenizers.Encoding.

    Attributes:
        tokens: id, segment and, if it is no special token, number of its text.
    """

    tokens: Sequence[tuple[int, int, int | None]]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def ids(self) -> list[int]:
        """Token ids."""
        return [token_id for token_id, _, _ in self.tokens]

    @property
    def type_ids(self) -> list[int]:
        """Segment of each."""
        return [segment for _, segment, _ in self.tokens]

    def token_to_sequence(self, token_index: int) -> int | None:
        """Which text the token is of; None for a special one."""
        return self.tokens[token_index][2]


@dataclass(frozen=True, slots=True)
class Special:
    """A token that no word can be; see tokenizers.AddedToken."""

    content: str
    special: bool = True


class WordTokenizer:
    """Splits at blanks and punctuation; see tokenizers.Tokenizer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def get_added_tokens_decoder(self) -> dict[int, Special]:
        """The special tokens by id."""
        return {CLS: Special("[CLS]"), SEP: Special("[SEP]")}

    def no_padding(self) -> None:
        """It never pads."""

    def no_truncation(self) -> None:
        """It never truncates."""

    def encode(self, text: str, pair: str | None = None, *, add_special_tokens: bool = True) -> Encoded:
        """Tokenise a text, or a pair."""
        tokens: list[tuple[int, int, int | None]] = [(CLS, 0, None)] if add_special_tokens else []
        for number, part in enumerate((text,) if pair is None else (text, pair)):
            tokens += [(self._vocabulary.token_id(word), number, number) for word in _words(part)]
            if add_special_tokens:
                tokens.append((SEP, number, None))
        return Encoded(tokens)

    def encode_batch(
        self, inputs: Sequence[str | tuple[str, str]], *, add_special_tokens: bool = True
    ) -> list[Encoded]:
        """Tokenise texts or pairs."""
        parts = [(item,) if isinstance(item, str) else item for item in inputs]
        return [self.encode(*part, add_special_tokens=add_special_tokens) for part in parts]

    encode_batch_fast = encode_batch


def _words(text: str) -> list[str]:
    # BERT's tokenizer drops what cannot be seen, such as NUL, too.
    return _WORD.findall("".join(letter for letter in text if letter.isprintable() or letter.isspace()))
