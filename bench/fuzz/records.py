"""What is remembered of bulk jobs in the broker, and beside vectors: read strictly, or not at all.

It knows who reads each, and by which error that may end. It does not know how jobs run.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from headrace.bulk.card import Card
from headrace.bulk.cut import Cut, Span, Spans
from headrace.bulk.jobs.record import Checkpoint, JobRecord, Owner, ShardRecord, Tally
from headrace.errors import HeadraceError, JobConflict, SinkError

from fuzz.messages import check_text
from fuzz.mutation import mutated_json
from fuzz.target import Target, Verdict, Wrong

_CARD = Card(
    model="minilm",
    source="a",
    fingerprint="0123456789abcdef",
    tokenizer="0123456789abcdef",
    pooling="mean",
    prompt="",
    dim=384,
    dtype="f32",
    normalize=True,
    max_length=256,
    compute_dtype="bfloat16",
)
_JOB = JobRecord(
    name="nightly",
    source="corpus/*.jsonl",
    sink="vectors",
    card=_CARD,
    cut=Cut(),
    corpus="c0ffee",
    num_shards=3,
    num_rows=None,
    options={"column": "text", "looks_up": False, "limit": None},
    state="running",
    reason=None,
    created_ms=1,
    changed_ms=2,
)
_SHARD = ShardRecord(
    shard=1,
    owner=Owner("a1b2", "host", 7, "boot", 99),
    beat=3,
    checkpoint=Checkpoint(Spans.of((Span(0, 2, 0, 9), Span(3, 4, 12, 20))), Tally(rows=17, written=17), is_done=False),
    term=1,
    job_ms=1,
)


class _Written(Protocol):
    def to_json(self) -> str | bytes: ...


T = TypeVar("T", bound=_Written)


def targets() -> list[Target]:
    """One a kind of record."""
    free = (_JOB.to_json().replace(b'"owner":', b'"other":'), b"{}", b"[]", b"null", b'{"v":1}')
    return [
        _target("job", JobRecord.from_json, JobConflict, (_JOB.to_json(), *free)),
        _target("shard", ShardRecord.from_json, JobConflict, (_SHARD.to_json(), *free)),
        _target("card", Card.from_json, SinkError, (_CARD.to_json().encode(), *free)),
    ]


def _target(name: str, read: Callable[[bytes], T], error: type[HeadraceError], seeds: tuple[bytes, ...]) -> Target:
    run = partial(_run, read, error)
    return Target(name=name, group="decode", seeds=partial(list, seeds), run=run, mutate=mutated_json)


def _run(read: Callable[[bytes], T], refusal: type[HeadraceError], data: bytes) -> Verdict:
    try:
        found = read(data)
    except refusal as error:
        check_text(str(error).encode(errors="backslashreplace").decode())
        return Verdict.REFUSED
    written = found.to_json()
    if read(written if isinstance(written, bytes) else written.encode(errors="surrogatepass")) != found:
        raise Wrong(f"{found!r} comes back as another one")
    return Verdict.TAKEN
