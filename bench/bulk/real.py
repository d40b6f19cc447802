"""A job with real weights: how near it comes to the engine alone, and to what a client gets for the same texts.

The engine is measured on the worker's cores with the same texts, before and after each job.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from economics import processes
from headrace import Client, local
from headrace_workers.calibration.choose import DEFAULT_STEP_TOKENS
from numpy.typing import NDArray
from online.cores import on
from online.finding import Figure, Finding, Verdict

from bulk import bare_engine, checker, corpus
from bulk.checker import Checked
from bulk.corpus import Corpus
from bulk.ground import Ground
from bulk.million import sound
from bulk.reindex import Reindex, command

_NAME = "real"
_SHARE = 0.95
_ROUNDS = 3
_SAMPLE, _SECONDS = 1000, 15.0
# What texts of other lengths beside it may change in a vector of unit length: rounding of float16 products.
_TOLERANCE = 1e-3


async def measure(ground: Ground) -> Finding:
    """Run the engine and the job in turns; then ask a client for some of the texts."""
    documents = ground.documents(Corpus(documents=ground.amount.real, seed=ground.first_seed, bad=0.001), _NAME)
    folder = ground.work / _NAME
    jobs: list[Reindex] = []
    with ground.broker(_NAME) as broker:
        engine = [await alone(ground, documents)]
        for number in range(1 if ground.is_quick else _ROUNDS):
            # Apart, since both would share the cores: a worker that waits for work still takes some of them.
            with on(ground.cores.device), _worker(ground, broker.url):
                ground.say(f"{_NAME}: embedding them")
                what = command(
                    documents,
                    folder / f"sink-{number}",
                    url=broker.url,
                    model=ground.name,
                    job=f"{_NAME}-{number}",
                    options=ground.options,
                )
                jobs.append(Reindex(*what, log=folder / "producer.log"))
                with on(ground.cores.others):
                    await jobs[-1].run()
            engine.append(await alone(ground, documents))
        ground.say(f"{_NAME}: asking a client")
        sample = _sample(documents)
        with on(ground.cores.device), _worker(ground, broker.url):
            async with await Client.connect(broker.url) as client:
                vectors = np.asarray(await client.embed(list(sample.values()), priority="batch", timeout=600))
    checked = await asyncio.to_thread(checker.check, documents, folder / "sink-0", f"{_NAME}-0", None)
    return finding(jobs, checked, engine, _differences(folder / "sink-0", list(sample), vectors))


def _worker(ground: Ground, url: str) -> AbstractContextManager[object]:
    own = ("--threads", str(len(ground.cores.device)), "--no-calibration")
    return local.worker(ground.model, url, *own, log=ground.work / _NAME / "worker.log")


async def alone(ground: Ground, documents: Path) -> float:
    """Tokens a second of the engine on the worker's cores."""
    ground.say("the engine alone")
    plan = bare_engine.Plan(
        model=ground.model,
        documents=str(documents),
        step_tokens=DEFAULT_STEP_TOKENS,
        threads=len(ground.cores.device),
        seconds=1.0 if ground.is_quick else _SECONDS,
    )
    with on(ground.cores.device):
        return (await processes.ask("bulk.bare_engine", plan, bare_engine.Ran)).tokens_per_s


def _sample(documents: Path) -> dict[int, str]:
    rows = {
        number: text
        for ids, texts in corpus.read(documents)
        for number, text in zip(ids.tolist(), texts, strict=True)
        if text is not None
    }
    chance = random.Random(0)  # noqa: S311 - the same ones each time
    return {number: rows[number] for number in chance.sample(sorted(rows), min(_SAMPLE, len(rows)))}


def _differences(sink: Path, ids: Sequence[int], vectors: NDArray[Any]) -> NDArray[np.float64]:
    """[n] the largest difference of an element, of each of these rows; infinite where it is missing."""
    found = np.full(len(ids), np.inf)
    places = {number: place for place, number in enumerate(ids)}
    for numbers, rows in checker.rows(sink):
        for number, row in zip(numbers, rows, strict=True):
            if (place := places.get(number)) is not None:
                found[place] = np.abs(row.astype(np.float64) - vectors[place].astype(np.float64)).max()
    return found


def finding(
    jobs: Sequence[Reindex], checked: Checked, engine: Sequence[float], differences: NDArray[np.float64]
) -> Finding:
    """What it comes to.

    Args:
        jobs: One a round.
        checked: The sink of the first.
        engine: Tokens a second of it alone, before, between and after them.
        differences: Of vectors from a client's.
    """
    rates = [job.lines[-1]["tokens_done"] / job.lines[-1]["elapsed_s"] for job in jobs]
    # The machine may change its speed: each job is held against what the engine did just before and just after it.
    shares = [rate / ((before + after) / 2) for rate, before, after in zip(rates, engine, engine[1:], strict=False)]
    return Finding(
        part=_NAME,
        what=f"{checked.expected + checked.bad:,} documents through a worker with real weights, {len(jobs)} times",
        figures=[
            Figure(what="from start to end, median", value=median(job.ended_s - job.began_s for job in jobs), unit="s"),
            Figure(what="job, median", value=median(rates), unit="tokens/s"),
            Figure(what="engine alone, median", value=median(engine), unit="tokens/s"),
            Figure(what="share of the engine's own, least", value=min(shares)),
            Figure(what="share of the engine's own, most", value=max(shares)),
            Figure(what="event loop held for, at most", value=max(_hold_ms(job) for job in jobs), unit="ms"),
            Figure(what="a client's vectors, bit for bit", value=float((differences == 0).mean()) * 100, unit="%"),
        ],
        verdicts=[
            *sound(checked),
            Verdict(
                what="tokens a second of the job, as a share of the engine's own, median",
                found=median(shares),
                limit=_SHARE,
                sense="at least",
            ),
            Verdict(
                what="an element's difference from what a client gets",
                found=float(differences.max()),
                limit=_TOLERANCE,
                sense="at most",
            ),
        ],
        series={"tokens/s of the job": rates, "tokens/s of the engine alone": list(engine)},
        notes=checked.examples,
    )


def _hold_ms(job: Reindex) -> float:
    return float(job.hold["longest_hold_ms"])
