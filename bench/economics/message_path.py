"""The message path alone: client, broker and worker as they are, around an engine that answers at once.

It knows the cases. Without work in the engine, the duration of a call is the latency that the path adds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from economics import bare, processes
from economics.client import Load, Plan, Ran
from economics.engine_cpu import Shape
from headrace import local
from result import MessagePath
from timing import Spread

CHUNK_TOKENS = 512
_QUERY, _SHORT = 10, 20
# Chunks of a bulk call. With two callers there is always more to send than the client's window lets out.
_BULK_CHUNKS, _BULK_CALLERS = 256, 2
_BARE_BYTES = 200  # as large as a query's chunk
_CHUNKS_OF_A_STEP = 4  # at the step budget that a worker has by default


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: its name and its load."""

    name: str
    load: Load

    @classmethod
    def all(cls, clients: Sequence[int], seconds: float) -> "Iterator[Case]":
        """The cases.

        Args:
            clients: Numbers of callers with one query at a time.
            seconds: Of each case.
        """
        for callers in clients:
            yield cls("one query", _online(_QUERY, callers, seconds))
        yield cls(f"one text of {CHUNK_TOKENS} tokens", _online(CHUNK_TOKENS, 1, seconds))
        yield cls(f"chunks of {CHUNK_TOKENS} tokens", _bulk(CHUNK_TOKENS, seconds))
        yield cls(f"chunks of {CHUNK_TOKENS // _SHORT} short texts", _bulk(_SHORT, seconds))

    @property
    def step(self) -> Shape:
        """What an engine would make of it: the queries of all callers together, or chunks up to the step budget."""
        load = self.load
        together = load.callers if load.chunks == 1 else _CHUNKS_OF_A_STEP
        return Shape(load.sequences * together, load.length)

    def found(self, ran: Ran, engine_cpu_s_per_token: float | None) -> MessagePath:
        """The line."""
        per_chunk = ran.used.us_per(ran.chunks)
        chunks_per_s, engine_s = ran.chunks / ran.used.at_s, engine_cpu_s_per_token
        is_bulk = self.load.chunks > 1
        return MessagePath(
            case=self.name,
            tokens=self.load.tokens,
            clients=1 if is_bulk else self.load.callers,
            call=None if is_bulk else Spread.of(ran.durations_ms),
            chunks_per_s=chunks_per_s,
            tokens_per_s=chunks_per_s * self.load.tokens,
            cpu_us_per_chunk=per_chunk,
            cpu_share=None if engine_s is None else sum(per_chunk.values()) / 1e6 / (engine_s * self.load.tokens),
        )


def _online(tokens: int, callers: int, seconds: float) -> Load:
    return Load(sequences=1, length=tokens, chunks=1, callers=callers, priority="online", seconds=seconds)


def _bulk(length: int, seconds: float) -> Load:
    return Load(
        sequences=CHUNK_TOKENS // length,
        length=length,
        chunks=_BULK_CHUNKS,
        callers=_BULK_CALLERS,
        priority="batch",
        seconds=seconds,
    )


async def measure(
    model: str, cases: Sequence[Case], engine_cpu_s_per_token: Sequence[float | None]
) -> tuple[MessagePath, ...]:
    """Start a broker, a worker and a client, and put each case on them.

    Args:
        model: Whose place the engine takes; it must take texts of 512 tokens.
        cases: What to measure.
        engine_cpu_s_per_token: Of each case's step, processor seconds that the engine alone needs; None leaves the
            share out.
    """
    limit = ("--max-chunk-tokens", str(CHUNK_TOKENS))
    with local.server() as server, processes.null_worker(model, server.url, *limit) as worker:
        pids = {"broker": (server.process.pid,), "worker": (worker.pid,)}
        plan = Plan(url=server.url, pids=pids, loads=tuple(case.load for case in cases))
        ran = await processes.ask("economics.client", plan, list[Ran])
        bare_ms = await processes.ask("economics.bare", _bare(server.url, cases), list[float])
    found = zip(cases, ran, engine_cpu_s_per_token, strict=True)
    return (_floor(bare_ms), *(case.found(one, alone) for case, one, alone in found))


def _bare(url: str, cases: Sequence[Case]) -> bare.Plan:
    return bare.Plan(url=url, num_bytes=_BARE_BYTES, seconds=max(case.load.seconds for case in cases))


def _floor(durations_ms: Sequence[float]) -> MessagePath:
    """The line that the others are to be seen against: one query's hops by nats-py alone."""
    rate = 1000 * len(durations_ms) / sum(durations_ms)
    return MessagePath(
        case="nats-py alone",
        tokens=_QUERY,
        clients=1,
        call=Spread.of(durations_ms),
        chunks_per_s=rate,
        tokens_per_s=rate * _QUERY,
        cpu_us_per_chunk={},
        cpu_share=None,
    )
