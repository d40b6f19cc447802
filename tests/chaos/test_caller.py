"""Callers as processes: what they ask, what they write, and how they end."""

import asyncio
import random
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from bulk.oracle import Oracle
from survival import caller, wish
from survival.caller import Caller, Plan
from survival.checker import Allowed, Freeze, check, gaps
from survival.digests import expected
from survival.errand import errand, stop
from survival.history import NEVER, RESULT, read, written
from survival.texts import texts
from survival.wish import Queries, Wish

from ..waiting import until
from .served import NAME, Served

TEXTS = texts(seed=1, num=80)


def plan(url: str, file: Path, **changes: Any) -> Plan:
    known: dict[str, Any] = {"seed": 3, "rate": 60.0, "longest_s": 5.0}
    return Plan(name=file.stem, url=url, model=NAME, history=str(file), texts=TEXTS, **{**known, **changes})


def num_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


async def test_a_caller_writes_all_that_it_asked_and_got(served: Served, oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with errand("survival.caller", plan(served.url, file)) as process:
        await until(lambda: num_lines(file) > 300, "it has asked a lot")
        code = await asyncio.to_thread(stop, process)
    assert code == 0
    found = read(file)
    assert check([found], expected(oracle, TEXTS)) == []
    assert found.stopped_s is not None
    assert {each.call for each in found.asked} == {each.call for each in found.ended}
    ends = Counter(each.end for each in found.ended)
    assert ends[RESULT] > len(found.ended) / 2
    assert gaps([found])[0].seconds < found.stopped_s - found.asked[0].at_s


async def test_a_caller_that_is_killed_leaves_what_it_wrote(served: Served, oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with errand("survival.caller", plan(served.url, file)) as process:
        await until(lambda: num_lines(file) > 50, "it has asked something")
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = read(file)
    assert found.stopped_s is None
    digests = expected(oracle, TEXTS)
    assert check([found], digests, Allowed(killed={"a"})) == []
    assert "a never said that it had waited for all its calls" in check([found], digests)


async def test_a_caller_that_was_frozen_takes_no_call_for_lost(served: Served, oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with errand("survival.caller", plan(served.url, file, longest_s=0.5)) as process:
        await until(lambda: num_lines(file) > 50, "it has asked something")
        began_s = monotonic()
        process.send_signal(signal.SIGSTOP)
        # Until all that it had asked is over and done with, but for it.
        await until(lambda: monotonic() > began_s + 1, "its calls are over")
        process.send_signal(signal.SIGCONT)
        thawed_s = monotonic()
        await until(lambda: num_lines(file) > 100, "it goes on")
        stop(process)
    found = read(file)
    assert not [each for each in found.ended if each.end == NEVER]
    frozen = Freeze(began_s=began_s, ended_s=thawed_s, caller="a")
    assert check([found], expected(oracle, TEXTS), Allowed(freezes=[frozen])) == []


async def test_a_call_that_never_ends_is_written_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        """A client such as there must be none."""

        async def embed(self, *_: object, **__: object) -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.was_cancelled = True
                    if self.is_done:
                        raise

        is_done = was_cancelled = False

    monkeypatch.setattr(caller, "_BOUND_S", 0.01)
    monkeypatch.setattr(wish, "SHORTEST_S", 0.01)
    silent, file = Silent(), tmp_path / "a.jsonl"
    with written(file) as history:
        one = plan("nats://nowhere", file, longest_s=0.02, seconds=0.1)
        await Caller(one, silent, history).ask(asyncio.Event())  # type: ignore[arg-type] # it is asked one thing alone
    silent.is_done = True
    found = read(file)
    assert {each.end for each in found.ended} == {NEVER}
    assert len(found.ended) == len(found.asked) > 0
    assert silent.was_cancelled


def wishes(seed: int) -> list[Wish]:
    chance = random.Random(seed)  # noqa: S311 - they are to be the same each time
    return [Wish.out_of(chance, 80, 20.0) for _ in range(400)]


def test_wishes_are_the_same_for_a_seed_and_of_all_kinds() -> None:
    first, again = wishes(seed=5), wishes(seed=5)
    assert first == again
    assert {wish.priority for wish in first} == {"online", "batch"}
    assert {wish.retries for wish in first} == {0, 2, None}
    assert len({wish.tenant for wish in first}) == 3
    assert {len(wish.texts) > 8 for wish in first} == {len(wish.texts) == 1 for wish in first} == {True, False}
    assert min(wish.timeout_s for wish in first) < 0.5
    assert max(wish.timeout_s for wish in first) > 15
    impatient = [wish for wish in first if wish.patience_s is not None]
    assert 0 < len(impatient) < 200
    assert all(wish.patience_s is not None and wish.patience_s <= wish.timeout_s for wish in impatient)


def test_queries_differ_in_their_text_alone() -> None:
    chance = random.Random(5)  # noqa: S311 - it is to be the same each time
    found = [Wish.query(chance, 80, Queries(timeout_s=5)) for _ in range(400)]
    assert len({each.texts for each in found}) > 70
    assert {each.texts[0] for each in found} <= set(range(80))
    assert {replace(each, texts=()) for each in found} == {Wish(texts=(), timeout_s=5)}


async def test_who_asks_queries_asks_evenly(served: Served, oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    queries = plan(served.url, file, rate=50.0, seconds=0.99, queries=Queries(timeout_s=5))
    with errand("survival.caller", queries) as process:
        await asyncio.to_thread(process.wait)
    found = read(file)
    assert check([found], expected(oracle, TEXTS)) == []
    assert len(found.asked) == 50, "none for chance"
    assert {(len(each.texts), each.timeout_s, each.priority) for each in found.asked} == {(1, 5.0, "online")}


def test_texts_are_the_same_for_a_seed_and_odd_ones_are_among_them(oracle: Oracle) -> None:
    assert texts(1, 50) == texts(1, 50) != texts(2, 50)
    many = texts(7, 2000)
    assert {"", "\x00"} <= set(many)
    oracle.vectors(many)  # none is too long for a model of 256 tokens
