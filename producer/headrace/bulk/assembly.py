"""A window while its chunks are answered: which are outstanding, which vectors are there, which rows have failed.

Pure. Knows replies. A chunk that fails as a whole is halved until the text that spoils it stands alone. Does not know
how chunks and replies travel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from headrace_contracts import ErrorCode, ErrorReply, Reply, TokenIds
from headrace_contracts.messages import numpy_dtype, row_elements

from headrace.bulk.bulk_chunk import BulkChunk, Chunker
from headrace.bulk.card import Card
from headrace.bulk.ledger import Failure
from headrace.bulk.rows import Problem
from headrace.bulk.sift import Sifted
from headrace.bulk.sink import Part
from headrace.errors import JobFailed

# Codes that say something about the texts of a chunk; they may hold for one of them only.
_ABOUT_TEXTS = frozenset({ErrorCode.INVALID, ErrorCode.TOO_LONG, ErrorCode.NON_FINITE, ErrorCode.INTERNAL})
_MAX_TRIES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The texts of a window as token ids.

    Attributes:
        sequences: one a text.
        skip: tokens of the prompt that are left out of the pooling.
        unsent: by text, why it is not sent.
    """

    sequences: Sequence[TokenIds]
    skip: int
    unsent: dict[int, Problem]


class Assembly:
    """One window on its way.

    Attributes:
        sifted: its rows.
        outstanding: chunks without an answer, by id.
        num_tokens: that ran for it.
        num_retried: chunks that were sent again.
    """

    def __init__(self, sifted: Sifted, tokens: Tokens, chunker: Chunker, card: Card) -> None:
        self.sifted = sifted
        self.num_tokens = 0
        self.num_retried = 0
        self._tokens = tokens
        self._chunker = chunker
        self._card = card
        self._vectors = np.zeros((len(sifted.texts), row_elements(card.dtype, card.dim)), numpy_dtype(card.dtype))
        self._problems = dict(tokens.unsent)
        self._tries: dict[str, int] = {}
        wanted = np.array([place for place in range(len(sifted.texts)) if place not in tokens.unsent], np.int64)
        chunks = chunker.chunks(sifted.window.index, tokens.sequences, wanted, tokens.skip)
        self.outstanding = {chunk.id: chunk for chunk in chunks}

    def take(self, reply: Reply | ErrorReply) -> list[BulkChunk]:
        """Take in the answer to one of its chunks; what it does not know, or knows already, changes nothing.

        Returns:
            Chunks to send now: its halves, or the chunk again.

        Raises:
            JobFailed: the fleet refuses all of the job's work.
        """
        chunk = self.outstanding.get(reply.id)
        if chunk is None:
            return []
        if isinstance(reply, Reply):
            return self._put(chunk, reply)
        if reply.code is ErrorCode.MODEL_MISMATCH:
            raise JobFailed(
                f"the fleet serves another revision of {self._card.model} than this job began with ({reply.text}): "
                "serve that one, or begin another job with another sink, or with --replace"
            )
        if reply.code in _ABOUT_TEXTS:
            return self._halve(chunk, Problem(reply.code, reply.text))
        return self._again(chunk, Problem(reply.code, reply.text))

    def _put(self, chunk: BulkChunk, reply: Reply) -> list[BulkChunk]:
        wanted = (len(chunk.texts), self._card.dim, self._card.dtype)
        if (got := (len(reply.rows), reply.dim, reply.dtype)) != wanted:
            text = f"worker {reply.worker} sent (rows, dim, dtype) {got}, not {wanted}"
            return self._halve(chunk, Problem(ErrorCode.INTERNAL, text))
        del self.outstanding[chunk.id]
        self._vectors[chunk.texts] = reply.rows
        for bad in reply.bad:
            self._problems[int(chunk.texts[bad.index])] = Problem(bad.code, bad.text)
        self.num_tokens += reply.usage.tokens
        return []

    def _halve(self, chunk: BulkChunk, problem: Problem) -> list[BulkChunk]:
        del self.outstanding[chunk.id]
        if len(chunk.texts) == 1:
            self._problems[int(chunk.texts[0])] = problem
            return []
        middle = len(chunk.texts) // 2
        window, tokens = self.sifted.window.index, self._tokens
        halves = [
            self._chunker.chunk(window, tokens.sequences, texts, tokens.skip)
            for texts in (chunk.texts[:middle], chunk.texts[middle:])
        ]
        self.outstanding |= {half.id: half for half in halves}
        self.num_retried += len(halves)
        return halves

    def _again(self, chunk: BulkChunk, problem: Problem) -> list[BulkChunk]:
        tries = self._tries[chunk.id] = self._tries.get(chunk.id, 0) + 1
        if tries >= _MAX_TRIES:
            return self._halve(chunk, problem)
        self.num_retried += 1
        return [chunk]

    def part(self, *, keep_texts: bool) -> Part:
        """What goes to the sink; nothing is outstanding any more."""
        sifted = self.sifted
        window, text_of = sifted.window, sifted.text_of
        places = [
            place
            for place in range(len(window.ids))
            if place in sifted.unchanged or (text_of[place] >= 0 and int(text_of[place]) not in self._problems)
        ]
        fresh = np.array([place not in sifted.unchanged for place in places], np.bool_)
        vectors = np.zeros((len(places), self._vectors.shape[1]), self._vectors.dtype)
        vectors[fresh] = self._vectors[text_of[np.array(places, np.int64)[fresh]]]
        for at, place in enumerate(places):
            if place in sifted.unchanged:
                vectors[at] = sifted.unchanged[place].vector
        return Part(
            shard=window.shard,
            window=window.index,
            ids=[window.ids[place] for place in places],
            hashes=[sifted.hashes[place] for place in places],
            vectors=vectors,
            fresh=fresh,
            texts=[str(window.texts[place]) for place in places] if keep_texts else None,
        )

    def failures(self) -> list[Failure]:
        """The rows without a vector."""
        window, found = self.sifted.window, dict(self.sifted.problems)
        for place, text in enumerate(self.sifted.text_of.tolist()):
            if text in self._problems:
                found[place] = self._problems[text]
        return [
            Failure(
                id=window.ids[place],
                shard=window.shard,
                row=window.row + place,
                code=str(problem.code),
                text=problem.text,
            )
            for place, problem in sorted(found.items())
        ]
