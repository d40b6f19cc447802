"""What everyone has to do: the four suites of the article that Headrace is built after, as commands.

It knows texts, sizes and operation counts. It does not know who will do it, nor how long that takes.

The source is Perplexity's account of their embedding engine: batches of one text of 128, 512 and the most tokens;
scoring of 5, 25 and 50 documents of 512 tokens; batches of 100 from four concurrent processes; 1 to 16 concurrent
requests with tokenising and network.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ceiling import flop
from headrace_engine.models.bert import BertConfig
from workloads import PASSAGES, QUERIES, Texts

from suites.scale import Scale

SUITES = ("low-latency-embedding", "low-latency-scoring", "high-throughput-embedding", "high-concurrency")
PROCESSES = 4
_DOCUMENT_TOKENS = 512
_QUERY_TOKENS = 12
_WARM_TEXTS = 4
_DIFFERENT = 4  # texts of the same length, in turn
_POOL = 512  # queries that concurrent clients take in turn
_SEEDS = {"queries": 1, "passages": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One case: the command that every contender gets.

    Attributes:
        name: For people.
        command: As peers/serve.py takes it, without times.
        texts: In a call.
        tokens: In a call.
        flop: Operations of a call.
        clients: Calls at a time.
        repeats: Whether the turns are filled with calls, instead of one call each.
        warm_command: Less of the same, to warm up where a call takes seconds; None where that is the command itself.

    A call's input is one of `inputs`; the reference's rows are those of all of them, one after the other.
    """

    name: str
    command: Mapping[str, Any]
    texts: float
    tokens: float
    flop: float
    clients: int = 1
    repeats: bool = True
    warm_command: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One suite before it is run; see `result.Suite`.

    Attributes:
        name: Of the suite.
        title: For people.
        what: How it is measured.
        better: What is compared.
        rounds: Turns of each contender.
        jobs: Its cases.
    """

    name: str
    title: str
    what: str
    better: Literal["ms", "per_s"]
    rounds: int
    jobs: tuple[Job, ...]


def plans(texts: Texts, shape: BertConfig, max_length: int, scale: Scale) -> tuple[Plan, ...]:
    """All four.

    Args:
        texts: Makes texts for the model that is measured.
        shape: Of that model.
        max_length: Its longest text, in tokens.
        scale: How much to do.
    """
    return (
        Plan(
            name=SUITES[0],
            title="Low-latency embedding",
            what="One text a call: a short query, then 128, 512 and the most tokens that the model takes "
            f"({max_length}).",
            better="ms",
            rounds=scale.rounds,
            jobs=tuple(_single(texts, shape, max_length)),
        ),
        Plan(
            name=SUITES[1],
            title="Low-latency scoring",
            what=f"One query with documents a call; each pair has {_DOCUMENT_TOKENS} tokens.",
            better="ms",
            rounds=scale.long_rounds,
            jobs=tuple(_scoring(texts, shape, scale.documents)),
        ),
        Plan(
            name=SUITES[2],
            title="High-throughput embedding",
            what=f"{PROCESSES} processes hand in a batch of {scale.batch} passages each at the same moment; the last "
            "vector ends the clock. A library, which no second process can call, gets the batches one after the other "
            "in its own process, with all threads.",
            better="ms",
            rounds=scale.long_rounds,
            jobs=(_crowd(texts, shape, scale.batch),),
        ),
        Plan(
            name=SUITES[3],
            title="High concurrency",
            what="Clients with one short query at a time each, for as long as a turn lasts; tokenising and network are "
            "included. Clients of a library are threads of its process that take turns.",
            better="per_s",
            rounds=scale.long_rounds,
            jobs=tuple(_concurrent(texts, shape, num) for num in scale.clients),
        ),
    )


def _single(texts: Texts, shape: BertConfig, max_length: int) -> Iterator[Job]:
    lengths = {"query": _QUERY_TOKENS, "128 tokens": 128, "512 tokens": 512, f"{max_length} tokens": max_length}
    for name, length in lengths.items():
        if length <= max_length:
            yield Job(
                name=name,
                command={"do": "embed", "batches": [[text] for text in texts.of([length] * _DIFFERENT)]},
                texts=1,
                tokens=length,
                flop=flop(shape, [length]),
            )


def _scoring(texts: Texts, shape: BertConfig, sizes: Sequence[int]) -> Iterator[Job]:
    (query,) = texts.of([_QUERY_TOKENS])
    for size in sizes:
        lengths = [_DOCUMENT_TOKENS] * size
        documents = texts.pair(query, lengths)
        yield Job(
            name=f"{size} documents",
            command={"do": "score", "query": query, "documents": documents},
            texts=size,
            tokens=sum(lengths),
            flop=flop(shape, lengths),
            repeats=False,
            warm_command={"do": "score", "query": query, "documents": documents[:_WARM_TEXTS]},
        )


def _crowd(texts: Texts, shape: BertConfig, batch: int) -> Job:
    lengths = PASSAGES.draw(PROCESSES * batch, _SEEDS["passages"])
    made = texts.of(lengths)
    batches = [made[i * batch : (i + 1) * batch] for i in range(PROCESSES)]
    return Job(
        name=f"{PROCESSES} × {batch} passages",
        command={"do": "crowd", "batches": batches},
        texts=len(made),
        tokens=sum(lengths),
        flop=flop(shape, lengths),
        repeats=False,
        warm_command={"do": "crowd", "batches": [each[:_WARM_TEXTS] for each in batches]},
    )


def _concurrent(texts: Texts, shape: BertConfig, clients: int) -> Job:
    lengths = QUERIES.draw(_POOL, _SEEDS["queries"])
    return Job(
        name=f"{clients} client{'s' if clients > 1 else ''}",
        command={"do": "clients", "texts": texts.of(lengths), "clients": clients},
        texts=1,
        tokens=sum(lengths) / len(lengths),
        flop=flop(shape, lengths) / len(lengths),
        clients=clients,
    )


def inputs(command: Mapping[str, Any]) -> list[list[str]]:
    """The inputs of an embedding command: the texts of each call that it may make."""
    if command["do"] == "crowd":
        return [[text for batch in command["batches"] for text in batch]]
    if command["do"] == "clients":
        return [[text] for text in command["texts"]]
    return [list(batch) for batch in command["batches"]]
