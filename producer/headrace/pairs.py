"""From a query and documents to the token ids of pairs.

Knows the two ways to join a pair: by tokenizer.json, which sets separators and segment ids, or by the model's template.
Only the document is ever cut. The query is tokenised anew with each document: that is exact with every tokenizer, and
costs little, since queries are short.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
from headrace_contracts import ModelSpec, PairTemplate
from tokenizers import Tokenizer

from headrace.errors import InputError
from headrace.tokens import Tokenized, in_turn, piecewise, rust_errors


class Join(Protocol):
    """One way to make a sequence of a pair."""

    def num_taken(self, prompt: str, query: str) -> int:
        """Tokens of a pair whose document is empty."""
        ...

    def tokenize(self, prompt: str, query: str, documents: Sequence[str]) -> Tokenized:
        """The pairs of the query with each document, cut to the model's limit."""
        ...


class PairTokenizer:
    """One model's way to read pairs, with the model's own length limit."""

    def __init__(self, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        """Take a tokenizer that neither truncates nor pads."""
        self._tokenizer = tokenizer
        self._spec = spec
        self._join: Join = (
            JoinByTokenizer(tokenizer, spec.max_length, has_segments=spec.num_segments > 1)
            if spec.pair_template is None
            else JoinByTemplate(tokenizer, spec.max_length, spec.pair_template)
        )

    async def __call__(self, query: str, documents: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise the pairs; long inputs in a thread, so that the event loop goes on.

        Raises:
            InputError: the query leaves no room for a document.
            HeadraceError: the tokenizer cannot do it.
        """
        num_characters = len(prompt + query) * (len(documents) + 1) + sum(map(len, documents))
        return await in_turn(lambda: self.tokenize(query, documents, prompt), num_characters)

    def tokenize(self, query: str, documents: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise here and now; raises as a call does."""
        with rust_errors("the model's tokenizer fails"):
            return self._tokenize(query, documents, prompt)

    def _tokenize(self, query: str, documents: Sequence[str], prompt: str) -> Tokenized:
        name, max_length = self._spec.name, self._spec.max_length
        num_taken = self._join.num_taken(prompt, query)
        if num_taken >= max_length:
            num_query = len(self._tokenizer.encode(query, add_special_tokens=False))
            most = max(0, max_length - 1 - (num_taken - num_query))
            raise InputError(
                f"query has {num_query} tokens, which leave no room for a document: a pair of {name} may have "
                f"{max_length} in all, so a query may have {most}"
            )
        return self._join.tokenize(prompt, query, documents)


class JoinByTokenizer:
    """As the post-processor of tokenizer.json says: BERT, XLM-R, ModernBERT and the like."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, *, has_segments: bool) -> None:
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._has_segments = has_segments

    def num_taken(self, prompt: str, query: str) -> int:
        """Tokens of a pair whose document is empty."""
        return len(self._tokenizer.encode(prompt + query, ""))

    def tokenize(self, prompt: str, query: str, documents: Sequence[str]) -> Tokenized:
        """The pairs of the query with each document, cut to the model's limit."""
        first = prompt + query
        # Not encode_batch_fast: where tokenizer.json has no post-processor, it loses the segment ids.
        pairs = [(first, document) for document in documents]
        encodings = piecewise(self._tokenizer.encode_batch, pairs, (len(first) + len(text) for text in documents))
        return Tokenized.of(encodings, self._max_length, with_segments=self._has_segments)


class JoinByTemplate:
    """As the model's own template says: rerankers that answer yes or no. Pairs have one segment."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, template: PairTemplate) -> None:
        self._tokenizer = tokenizer
        self._prefix, self._suffix = (self._ids(part) for part in (template.prefix, template.suffix))
        self._max_body = max_length - len(self._prefix) - len(self._suffix)
        self._head = template.body.removesuffix("{document}")

    def num_taken(self, prompt: str, query: str) -> int:
        """Tokens of a pair whose document is empty."""
        return len(self._prefix) + len(self._ids(self._filled(prompt, query))) + len(self._suffix)

    def tokenize(self, prompt: str, query: str, documents: Sequence[str]) -> Tokenized:
        """The pairs of the query with each document, cut to the model's limit."""
        head = self._filled(prompt, query)
        bodies = [head + text for text in documents]
        encode = partial(self._tokenizer.encode_batch_fast, add_special_tokens=False)
        num_around = len(self._prefix) + len(self._suffix)
        sequences, full_lengths = [], []
        for body in piecewise(encode, bodies, map(len, bodies)):
            sequences.append(np.array(self._prefix + body.ids[: self._max_body] + self._suffix, np.uint32))
            full_lengths.append(num_around + len(body))
        return Tokenized(sequences, np.array(full_lengths, np.int64))

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _filled(self, prompt: str, query: str) -> str:
        """The body up to the document. In one pass: what a query has in braces is its own."""
        has_place = "{instruction}" in self._head
        texts = {"{instruction}": prompt, "{query}": query if has_place else prompt + query}
        return re.sub(r"\{instruction\}|\{query\}", lambda found: texts[found[0]], self._head)
