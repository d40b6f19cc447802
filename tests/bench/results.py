"""A result such as a run could have found, written down by hand, to make reports of."""

from dataclasses import dataclass, replace
from random import Random

from machine import Machine
from result import (
    Backlog,
    Calibrated,
    Case,
    Ceiling,
    Contender,
    Economics,
    Entry,
    Growth,
    MessagePath,
    Parts,
    Point,
    Result,
    Suite,
)
from timing import Spread

BOUND = 1e-3
GFLOPS = 846.0
# A step of three rounds: what the machine did to all that was measured in each.
ROUNDS = (1.0, 1.06, 0.97)


@dataclass(frozen=True, slots=True)
class Call:
    """What a case's call is: linear layers and attention of so many texts of so many tokens."""

    name: str
    texts: int
    tokens: int

    @property
    def flop(self) -> float:
        length = self.tokens / self.texts
        return self.tokens * (21.2e6 + 4 * length * 384 * 6)

    @property
    def limit_ms(self) -> float:
        return self.flop / GFLOPS / 1e6


def contender(name: str, label: str, dtype: str, *, ours: bool = False, server: bool = False) -> Contender:
    return Contender(
        name=name,
        label=label,
        is_ours=ours,
        is_server=server,
        dtype=dtype,
        versions={name.partition("-")[0]: "1.2.3"},
        settings={"threads": "2", "batch": "sorted by length, 32 at most"},
        status="ran",
        load_s=2.4,
        memory_mib=412,
    )


CONTENDERS = (
    contender("headrace", "Headrace, in process", "bfloat16", ours=True),
    contender("headrace-nats", "Headrace over NATS", "bfloat16", ours=True, server=True),
    contender("sentence-transformers", "sentence-transformers fp32", "float32"),
    contender("sentence-transformers-bf16", "sentence-transformers bf16", "bfloat16"),
    contender("onnxruntime-fp32", "ONNX Runtime (fastembed) fp32", "float32"),
    contender("openvino", "OpenVINO fp32", "float32"),
    contender("openvino-bf16", "OpenVINO bf16", "bfloat16"),
    contender("infinity", "Infinity bf16", "bfloat16", server=True),
    replace(
        contender("tei", "TEI fp32", "float32", server=True),
        status="absent",
        reason="no URL was given: --tei-url http://…",
        versions={},
        settings={},
        load_s=0,
        memory_mib=0,
    ),
    replace(
        contender("onnxruntime-int8", "ONNX Runtime int8", "int8"),
        status="failed",
        reason="ModuleNotFoundError: No module named 'onnxruntime' | its environment is incomplete",
        load_s=0,
        memory_mib=0,
    ),
)

# Medians in ms, in the order of the contenders that ran; 0 where a contender has nothing to offer.
EMBEDDING = {
    Call("query", 1, 10): (1.31, 4.1, 5.4, 3.5, 2.2, 2.1, 1.5, 14.0),
    Call("128 tokens", 1, 128): (6.2, 9.4, 19.0, 8.4, 9.4, 8.8, 6.3, 21.5),
    Call("512 tokens", 1, 512): (36.1, 40.2, 84.0, 38.8, 46.0, 36.8, 26.4, 58.0),
}
SCORING = {
    Call("5 documents", 5, 2_560): (163, 171, 412, 190, 0, 188, 131, 240),
    Call("25 documents", 25, 12_800): (811, 822, 2_050, 960, 0, 940, 655, 1_190),
    Call("50 documents", 50, 25_600): (1_624, 1_640, 4_110, 1_930, 0, 1_890, 1_309, 2_380),
}
THROUGHPUT = {Call("4 × 100 passages", 400, 39_200): (1_510, 1_560, 4_900, 2_110, 2_760, 2_290, 1_516, 3_150)}
CONCURRENCY = {
    1: (1.31, 4.1, 5.4, 3.5, 2.2, 2.1, 1.5, 14.0),
    2: (2.6, 5.6, 10.7, 7.0, 4.4, 4.2, 3.0, 20.1),
    4: (5.2, 7.9, 21.5, 14.1, 8.8, 8.4, 6.0, 34.8),
    8: (10.4, 10.3, 43.0, 28.2, 17.7, 16.9, 12.0, 48.1),
    16: (20.9, 15.4, 86.1, 56.3, 35.2, 33.7, 24.0, 73.9),
}


def entry(who: Contender, call: Call, p50: float, clients: int = 1) -> Entry:
    """One that is right; a bf16 one is a little off."""
    calls_per_s = 1000 * clients / p50
    chance = Random(f"{who.name}, {call.name}")  # noqa: S311 - a fixture needs no secrets
    rounds_ms = tuple(p50 * drift * chance.uniform(0.98, 1.02) for drift in ROUNDS)
    return Entry(
        contender=who.name,
        divergence=2.1e-6 if who.dtype == "float32" else 1.3e-4,
        is_right=True,
        took=Spread(num=40, min_ms=p50 * 0.93, p50_ms=p50, p90_ms=p50 * 1.12, p99_ms=p50 * 1.4),
        rounds_ms=rounds_ms,
        rounds_per_s=tuple(1000 * clients / ms * call.texts for ms in rounds_ms),
        per_s=calls_per_s * call.texts,
        tokens_per_s=calls_per_s * call.tokens,
        cpu_s_per_mtoken=2 * p50 / call.tokens / clients * 1000,
        limit_share=call.limit_ms * calls_per_s / 1000,
    )


def case(call: Call, medians: tuple[float, ...], clients: int = 1) -> Case:
    return Case(
        name=call.name,
        texts=call.texts,
        tokens=call.tokens,
        flop=call.flop,
        limit_ms=call.limit_ms,
        entries=tuple(
            entry(who, call, p50, clients)
            for who, p50 in zip((each for each in CONTENDERS if each.status == "ran"), medians, strict=True)
            if p50
        ),
    )


def suites() -> tuple[Suite, ...]:
    return (
        Suite(
            name="low-latency-embedding",
            title="Low-latency embedding",
            what="One text a call, one call at a time; from the text to its vector.",
            better="ms",
            cases=tuple(case(call, medians) for call, medians in EMBEDDING.items()),
        ),
        Suite(
            name="low-latency-scoring",
            title="Low-latency scoring",
            what="One query and its documents a call, pairs of 512 tokens; from the texts to the scores.",
            better="ms",
            cases=tuple(case(call, medians) for call, medians in SCORING.items()),
        ),
        Suite(
            name="high-throughput-embedding",
            title="High-throughput embedding",
            what="Four processes hand in 100 passages each at the same moment; the last vector ends the clock.",
            better="ms",
            cases=tuple(case(call, medians) for call, medians in THROUGHPUT.items()),
        ),
        Suite(
            name="high-concurrency",
            title="High concurrency",
            what="Clients that send one short query after another; a library's clients take turns.",
            better="per_s",
            cases=tuple(
                case(Call(f"{clients} client{'s' * (clients > 1)}", 1, 10), medians, clients)
                for clients, medians in CONCURRENCY.items()
            ),
        ),
    )


def economics() -> Economics:
    costs = {"client": 61.0, "broker": 38.0, "worker": 84.0}
    call = Spread(num=900, min_ms=0.9, p50_ms=1.12, p90_ms=1.5, p99_ms=2.9)
    return Economics(
        path=(
            MessagePath(
                case="one query",
                tokens=10,
                clients=1,
                call=call,
                chunks_per_s=893,
                tokens_per_s=8_930,
                cpu_us_per_chunk={name: 2.2 * cost for name, cost in costs.items()},
                cpu_share=0.19,
            ),
            MessagePath(
                case="chunks of 512 tokens",
                tokens=512,
                clients=16,
                call=None,
                chunks_per_s=5_210,
                tokens_per_s=2_667_520,
                cpu_us_per_chunk=costs,
                cpu_share=0.0064,
            ),
        ),
        growth=(
            Growth(engine="null", workers=1, chunks_per_s=5_210, tokens_per_s=512 * 5_210),
            Growth(engine="null", workers=2, chunks_per_s=6_980, tokens_per_s=512 * 6_980),
            Growth(engine="real", workers=1, chunks_per_s=27.6, tokens_per_s=512 * 27.6),
            Growth(engine="real", workers=2, chunks_per_s=26.9, tokens_per_s=512 * 26.9),
        ),
        backlog=tuple(
            Backlog(
                chunks=chunks,
                tokens=512,
                publish_per_s=21_000,
                broker_memory_mib=memory,
                broker_disk_mib=chunks * 2.2 / 1024,
                drain_per_s=5_000,
                drained=10_000,
                broker_cpu_us=broker,
                worker_cpu_us=82,
            )
            for chunks, memory, broker in (
                (10_000, 41, 40.0),
                (100_000, 58, 41.0),
                (1_000_000, 174, 44.0),
                (10_000_000, 1_260, 58.0),
            )
        ),
    )


def calibrated() -> Calibrated:
    a_ms, b_us, c_ns = 0.62, 27.4, 34.0
    shapes = [(count, length) for length in (16, 64, 128, 512) for count in (1, 2, 4, 8, 16, 32, 64, 128)]
    return Calibrated(
        points=tuple(
            Point(sequences=count, length=length, ms=_law(a_ms, b_us, c_ns, count, length) * (0.97 + count % 3 / 50))
            for count, length in shapes
            if count * length <= 16_384
        ),
        a_ms=a_ms,
        b_us=b_us,
        c_ns=c_ns,
        step_tokens=1_024,
        budget_tokens=4_096,
        saturation_tokens=512,
        quadratic_length=806,
        target_ms=50,
    )


def _law(a_ms: float, b_us: float, c_ns: float, count: int, length: int) -> float:
    return a_ms + count * length * (b_us / 1e3 + length * c_ns / 1e6)


def result() -> Result:
    return Result(
        machine=Machine(
            date="2026-11-29T20:14:03+00:00",
            commit="7a59ab1f0c9d4be0b3a8b2b1d7c6e5f4a3928170",
            dirty=False,
            processor="AMD EPYC 9B45",
            cores=2,
            memory_gib=23.5,
            load=0.18,
            system="Debian GNU/Linux 12 (bookworm) x86_64",
            python="3.11.7",
            torch="2.13.0+cpu",
            nats_server="2.15.1",
            threads=2,
            dtype="bfloat16",
            omp_wait_policy=None,
        ),
        mode="full",
        took_s=1_043,
        models={
            "embedder": "all-MiniLM-L6-v2, its limit raised to 512 tokens",
            "scorer": "a BERT reranker of the same encoder, its head drawn from a seed",
        },
        bound=BOUND,
        contenders=CONTENDERS,
        ceilings=(
            Ceiling(dtype="bfloat16", product=(2048, 384, 1536), gflops=GFLOPS, tokens_per_s=GFLOPS * 1e9 / 21.2e6),
            Ceiling(dtype="float32", product=(2048, 384, 1536), gflops=203, tokens_per_s=203e9 / 21.2e6),
        ),
        suites=suites(),
        parts=(
            parts("query", 1, (4.1, 0.1, 0.62, 0.71, 1.35)),
            parts("512 tokens", 1, (40.2, 0.9, 0.71, 0.84, 36.2)),
            parts("16 clients", 16, (15.4, 0.12, 1.9, 6.1, 4.3)),
        ),
        economics=economics(),
        calibrated=calibrated(),
    )


def parts(name: str, clients: int, ms: tuple[float, float, float, float, float]) -> Parts:
    total, tokenise, publish, queue, run = ms
    return Parts(
        case=name,
        clients=clients,
        total=total,
        tokenise=tokenise,
        publish=publish,
        queue=queue,
        run=run,
        reply=total - tokenise - publish - queue - run,
    )


def changed(found: Result, who: str, suite: int, case_: int, **changes: object) -> Result:
    """The same, but for one entry."""
    cases = list(found.suites[suite].cases)
    entries = tuple(replace(each, **changes) if each.contender == who else each for each in cases[case_].entries)  # type: ignore[arg-type]
    cases[case_] = replace(cases[case_], entries=entries)
    all_suites = list(found.suites)
    all_suites[suite] = replace(all_suites[suite], cases=tuple(cases))
    return replace(found, suites=tuple(all_suites))


def in_float16(found: Result, factor: float = 1.9) -> Result:
    """The same, ours in float16, and beside it ours in float32, which takes so many times as long."""
    ours = tuple(
        replace(each, dtype="float16", label=f"{each.label}, fp16") for each in found.contenders if each.is_ours
    )
    second = replace(
        ours[0], name="headrace-fp32", label="Headrace, in process, fp32", dtype="float32", is_second_choice=True
    )
    return replace(
        found,
        machine=replace(found.machine, dtype="float16"),
        contenders=(ours[0], second, *ours[1:], *(each for each in found.contenders if not each.is_ours)),
        ceilings=(*found.ceilings, replace(found.ceilings[0], dtype="float16", gflops=390)),
        suites=tuple(
            replace(suite, cases=tuple(_with_second(each, factor) for each in suite.cases)) for suite in found.suites
        ),
    )


def _with_second(found: Case, factor: float) -> Case:
    first, *others = found.entries
    assert first.took is not None
    took = first.took
    second = replace(
        first,
        contender="headrace-fp32",
        took=replace(took, min_ms=took.min_ms * factor, p50_ms=took.p50_ms * factor, p90_ms=took.p90_ms * factor),
        rounds_ms=tuple(ms * factor for ms in first.rounds_ms),
        rounds_per_s=tuple(rate / factor for rate in first.rounds_per_s),
        per_s=first.per_s / factor,
        tokens_per_s=first.tokens_per_s / factor,
        limit_share=first.limit_share / factor,
    )
    return replace(found, entries=(first, second, *others))


def without_peers(found: Result) -> Result:
    """As on a machine where none is installed."""
    ours = {each.name for each in found.contenders if each.is_ours}
    return replace(
        found,
        contenders=tuple(
            each if each.is_ours else replace(each, status="absent", reason="not installed: run `make bench-peers`")
            for each in found.contenders
        ),
        suites=tuple(
            replace(
                suite,
                cases=tuple(
                    replace(each, entries=tuple(one for one in each.entries if one.contender in ours))
                    for each in suite.cases
                ),
            )
            for suite in found.suites
        ),
    )
