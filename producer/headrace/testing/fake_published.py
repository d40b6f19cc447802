"""The models of a fake fleet, ready for a client.

Knows how they come by tokenizers. These note what they read, since a chunk no longer tells.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from headrace_contracts import ModelSpec
from tokenizers import Tokenizer

from headrace.errors import ConnectionFailed, InputError
from headrace.pairs import PairTokenizer
from headrace.published import Model
from headrace.testing.memory_nats import MemoryNats
from headrace.testing.progress import CURRENT
from headrace.testing.words import Vocabulary, WordTokenizer
from headrace.tokens import TextTokenizer, Tokenized


class NotedTexts(TextTokenizer):
    """Tokenises texts, and notes them."""

    async def __call__(self, texts: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise prompt + text, each."""
        progress = CURRENT.get()
        progress.texts, progress.prompt = tuple(texts), prompt
        return await super().__call__(texts, prompt)


class NotedPairs(PairTokenizer):
    """Tokenises pairs, and notes them."""

    async def __call__(self, query: str, documents: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise the pairs."""
        progress = CURRENT.get()
        progress.query, progress.texts, progress.prompt = query, tuple(documents), prompt
        return await super().__call__(query, documents, prompt)


class FakePublished:
    """What Published is for a real fleet."""

    def __init__(self, specs: Iterable[ModelSpec], vocabulary: Vocabulary, nats: MemoryNats) -> None:
        """Publish models.

        Raises:
            InputError: two have the same name.
        """
        self._words = WordTokenizer(vocabulary)
        self._nats = nats
        self._specs: dict[str, ModelSpec] = {}
        for spec in specs:
            if spec.name in self._specs:
                raise InputError(f"models has {spec.name!r} twice: each needs a name of its own")
            self._specs[spec.name] = spec

    async def specs(self) -> list[ModelSpec]:
        """All of them, by name.

        Raises:
            ConnectionFailed: the client is closed.
        """
        self._require_open()
        return [self._specs[name] for name in sorted(self._specs)]

    async def model(self, name: str) -> Model | None:
        """The named model; None if there is none.

        Raises:
            ConnectionFailed: the client is closed.
        """
        self._require_open()
        spec = self._specs.get(name)
        if spec is None:
            return None
        words = cast("Tokenizer", cast("Any", self._words))  # all that is asked of one, it has
        texts = NotedTexts(words, spec.max_length, include_prompt=spec.include_prompt)
        # A fleet of words tells query and document by what stands between them, which a template need not have.
        return Model(spec, texts, NotedPairs(words, replace(spec, pair_template=None)))

    def _require_open(self) -> None:
        if self._nats.is_closed:
            raise ConnectionFailed("could not read the models of the fleet: the client is closed; open a new one")
