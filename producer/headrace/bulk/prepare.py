"""From a window to chunks: what is new in it is tokenised, off the event loop.

Knows the order of that. Does not know how rows are read or chunks are sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from headrace_contracts import ErrorCode, Options

from headrace.bulk.assembly import Assembly, Tokens
from headrace.bulk.bulk_chunk import Chunker
from headrace.bulk.card import Card
from headrace.bulk.rows import Id, Problem
from headrace.bulk.sift import sift
from headrace.bulk.sink import Stored
from headrace.bulk.window import Window
from headrace.published import Model
from headrace.tokens import NO_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is the same for all windows of a job.

    Attributes:
        job: its name.
        job_ms: when it was created, which tells it from earlier ones of its name.
        model: that embeds.
        options: what is done to the rows.
        prompt: text to put before each text.
        card: what the vectors are.
        truncate: cut texts that are too long; if false they fail.
        dedupe: embed a text once that several rows of a window have.
        keep_texts: hand texts to the sink, too.
    """

    job: str
    job_ms: int
    model: Model
    options: Options
    prompt: str
    card: Card
    truncate: bool
    dedupe: bool
    keep_texts: bool


def prepare(window: Window, stored: Mapping[Id, Stored], work: Work) -> Assembly:
    """Sift, tokenise, cut into chunks. Takes a while: call it on a thread.

    Args:
        window: the rows.
        stored: what the sink has of their ids.
        work: of the job.
    """
    sifted = sift(window, stored, dedupe=work.dedupe)
    tokenized = work.model.texts.tokenize(sifted.texts, work.prompt)
    spec = work.model.spec
    unsent = {
        place: Problem(ErrorCode.TOO_LONG, f"{length} tokens: max_length of {spec.name} is {spec.max_length}")
        for place, length in enumerate(tokenized.full_lengths.tolist())
        if length > spec.max_length and not work.truncate
    }
    unsent |= {
        place: Problem(ErrorCode.INVALID, NO_TOKENS) for place in np.flatnonzero(tokenized.num_tokens == 0).tolist()
    }
    tokens = Tokens(tokenized.sequences, tokenized.skip, unsent)
    chunker = Chunker(f"{work.job}.{work.job_ms}.{window.shard}", work.job, spec, work.options)
    return Assembly(sifted, tokens, chunker, work.card)
