"""What the property tests draw: any message that the contract allows."""

import numpy as np
from headrace_contracts import (
    DTYPES,
    TASKS,
    BadItem,
    Cancel,
    Chunk,
    Envelope,
    ErrorCode,
    ErrorReply,
    ModelSpec,
    Options,
    PairTemplate,
    Presence,
    Reply,
    Usage,
)
from headrace_contracts.messages import numpy_dtype, row_elements
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

# Shared cores are slow at times; that is no failure.
patient = settings(deadline=None)

tokens = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True)
hashes = st.from_regex(r"[0-9a-f]{8,64}", fullmatch=True)
texts = st.text(max_size=200)
uints = st.integers(0, 2**63 - 1)
positives = st.integers(1, 2**31 - 1)
codes = st.sampled_from(ErrorCode)
dtypes = st.sampled_from(DTYPES)
reply_subjects = st.builds(
    lambda root, parts: ".".join((root, *parts)),
    st.sampled_from(("hr.inbox", "hr.results")),
    st.lists(tokens, min_size=2, max_size=6),
)
options = st.builds(
    Options,
    dim=st.none() | positives,
    dtype=dtypes,
    normalize=st.booleans(),
    raw=st.booleans(),
    skip=st.integers(0, 2**31 - 1),
)
envelopes = st.builds(
    Envelope,
    reply_to=reply_subjects,
    tokens=uints,
    deadline_ms=st.none() | uints,
    tenant=st.none() | tokens,
    msg_id=st.none() | tokens,
    traceparent=st.none() | tokens,
    request_id=st.none() | tokens,
)


def noise(seed: int, size: int) -> NDArray[np.uint8]:
    """Bytes that are the same for the same seed."""
    return np.frombuffer(np.random.default_rng(seed).bytes(size), np.uint8)


@st.composite
def chunks(draw: st.DrawFn, max_items: int = 40, max_length: int = 50) -> Chunk:
    lengths = np.array(draw(st.lists(st.integers(1, max_length), min_size=1, max_size=max_items)), np.uint32)
    num_tokens, seed = int(lengths.sum()), draw(st.integers(0, 2**32))
    return Chunk(
        id=draw(tokens),
        task=draw(st.sampled_from(TASKS)),
        model=draw(names),
        fingerprint=draw(hashes),
        lengths=lengths,
        token_ids=noise(seed, 4 * num_tokens).view(np.uint32),
        segment_ids=draw(st.sampled_from((None, noise(seed + 1, num_tokens)))),
        options=draw(options),
        job=draw(st.none() | tokens),
        seq=draw(st.none() | uints),
    )


@st.composite
def results(draw: st.DrawFn) -> Reply:
    """Rows are any bits at all: infinities and NaNs with payloads among them."""
    dtype, dim, n = draw(dtypes), draw(st.integers(1, 40)), draw(st.integers(1, 20))
    elements, element = row_elements(dtype, dim), numpy_dtype(dtype)
    raw = noise(draw(st.integers(0, 2**32)), n * elements * element.itemsize)
    items = st.builds(BadItem, st.integers(0, n - 1), codes, texts)
    return Reply(
        id=draw(tokens),
        rows=raw.view(element).reshape(n, elements),
        dim=dim,
        dtype=dtype,
        bad=tuple(draw(st.lists(items, max_size=n, unique_by=lambda item: item.index))),
        usage=Usage(
            tokens=draw(uints),
            queue_ms=draw(st.floats(0, 2.0**53)),
            run_ms=draw(st.floats(0, 2.0**53)),
            batch_tokens=draw(uints),
        ),
        worker=draw(tokens),
    )


errors = st.builds(
    ErrorReply, id=st.just("") | tokens, code=codes, text=texts, retry_ms=st.none() | uints, worker=tokens
)


cancels = st.builds(Cancel, st.lists(tokens, min_size=1, max_size=20).map(tuple))
presences = st.builds(
    Presence, worker=tokens, every_ms=st.integers(1, 2**31 - 1), rate=st.none() | uints, leaving=st.booleans()
)


# No brace of ours in the texts between: each placeholder stands where it is put, once.
between = st.text(st.characters(exclude_characters="{}", codec="utf-8"), max_size=50)
pair_templates = st.builds(
    lambda parts, instruction, prefix, suffix: PairTemplate(
        prefix=prefix, body=f"{parts[0]}{instruction}{parts[1]}{{query}}{parts[2]}{{document}}", suffix=suffix
    ),
    st.tuples(between, between, between),
    st.sampled_from(("", "{instruction}")),
    texts,
    texts,
)


@st.composite
def specs(draw: st.DrawFn) -> ModelSpec:
    prompts = draw(st.dictionaries(texts, texts, max_size=3))
    element_types = tuple(draw(st.lists(dtypes, min_size=1, max_size=4)))
    return ModelSpec(
        name=draw(names),
        source=draw(texts),
        tasks=tuple(draw(st.lists(st.sampled_from(TASKS), min_size=1, max_size=2))),
        dim=draw(positives),
        dtypes=element_types,
        default_dtype=draw(st.sampled_from(element_types)),
        compute_dtype=draw(texts),
        max_length=draw(positives),
        max_length_source=draw(texts),
        pooling=draw(texts),
        include_prompt=draw(st.booleans()),
        normalize=draw(st.booleans()),
        prompts=prompts,
        default_prompt=draw(st.sampled_from((None, *prompts))),
        pair_template=draw(st.none() | pair_templates),
        vocab_size=draw(positives),
        num_segments=draw(positives),
        fingerprint=draw(hashes),
        tokenizer=draw(hashes),
        max_chunk_tokens=draw(positives),
        max_chunk_items=draw(positives),
        shards=draw(positives),
        queues=draw(positives),
    )
