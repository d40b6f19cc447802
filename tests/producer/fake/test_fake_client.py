"""What a test can order of a fake client, and ask it afterwards."""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from headrace import (
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    ErrorCode,
    HeadraceError,
    Hedging,
    InputError,
    ItemError,
    ItemsFailed,
    ModelChanged,
    ModelNotFound,
    Overloaded,
    RequestFailed,
)
from headrace.options import EmbedOptions, ScoreOptions
from headrace.outcome import Outcome
from headrace.testing import FakeClient, FakeSyncClient, RecordedCall, fake_model

from ...waiting import until

FULL = Overloaded(ErrorCode.OVERLOADED, "the queue is full", 0.25)
BROKEN = RequestFailed(ErrorCode.INTERNAL, "the worker broke")


@pytest.fixture
async def client() -> AsyncIterator[FakeClient]:
    async with FakeClient() as client:
        yield client


async def test_calls_are_recorded_with_what_was_given(client: FakeClient) -> None:
    await client.embed(iter(["one", "two"]), dim=8, tenant="search")
    await client.score("query", "document", top_n=1, priority="batch")
    assert client.calls == [
        RecordedCall(
            task="embed",
            model="fake-embedder",
            texts=("one", "two"),
            query=None,
            prompt="",
            options=EmbedOptions(dim=8, tenant="search"),
            tenant="search",
        ),
        RecordedCall(
            task="score",
            model="fake-reranker",
            texts=("document",),
            query="query",
            prompt="",
            options=ScoreOptions(top_n=1, priority="batch"),
            tenant=None,
        ),
    ]


async def test_a_call_whose_arguments_are_wrong_is_not_recorded(client: FakeClient) -> None:
    for wrong in (client.embed(None), client.embed("text", dim=10_000), client.embed("text", model="nosuch")):  # type: ignore[arg-type]
        with pytest.raises((InputError, ModelNotFound)):
            await wrong
    assert client.calls == []


async def test_calls_are_made_in_the_clients_name_unless_they_say_otherwise() -> None:
    async with FakeClient(tenant="shop") as client:
        await asyncio.gather(client.embed("one"), client.embed("two", tenant="search"))
        assert sorted((call.texts, call.tenant) for call in client.calls) == [(("one",), "shop"), (("two",), "search")]
    with pytest.raises(InputError, match="not a name"):
        FakeClient(tenant="not a name")


async def test_concurrent_calls_are_recorded_each_with_its_own_texts(client: FakeClient) -> None:
    texts = [f"text {number} " * 400 for number in range(8)]  # long enough to be tokenised in threads
    await asyncio.gather(*map(client.embed, texts))
    assert sorted(call.texts for call in client.calls) == [(text,) for text in texts]


@pytest.mark.parametrize("error", [FULL, BROKEN, ConnectionFailed("gone"), DeadlineExceeded(ErrorCode.EXPIRED, "late")])
async def test_the_next_call_raises_what_was_ordered_and_the_one_after_does_not(
    client: FakeClient, error: HeadraceError
) -> None:
    client.fail_next(error)
    with pytest.raises(type(error), match=str(error)) as caught:
        await client.embed("text")
    assert getattr(caught.value, "code", None) == getattr(error, "code", None)
    assert getattr(caught.value, "retry_after_s", None) == getattr(error, "retry_after_s", None)
    assert (await client.embed("text")).shape == (384,)
    assert len(client.calls) == 2


async def test_one_failure_is_that_of_one_call_however_many_chunks_it_has(client: FakeClient) -> None:
    client.fail_next(FULL, times=2)
    for _ in range(2):
        with pytest.raises(Overloaded):
            await client.embed(["text"] * 3000)
    assert (await client.embed(["text"] * 3000)).usage.chunks > 1


async def test_a_refused_call_is_tried_again_as_often_as_it_asks_for(client: FakeClient) -> None:
    full = Overloaded(ErrorCode.OVERLOADED, "the queue is full", 0)
    client.fail_next(full, times=2)
    assert (await client.embed("text", retries=2)).shape == (384,)
    client.fail_next(full, times=2)
    with pytest.raises(Overloaded, match=r"the queue is full \(tried again once; retries is 1\)"):
        await client.embed("text", retries=1)
    assert [call.options.retries for call in client.calls] == [2, 1]


async def test_a_late_query_that_is_asked_a_second_time_is_one_call() -> None:
    sharded = replace(fake_model("model"), shards=2)
    async with FakeClient([sharded], hedging=Hedging(quantile=0.5, share=0.5)) as client:
        for _ in range(200):
            await client.embed("text")
        client.delay_s = 0.1
        assert (await client.embed("text")).usage.chunks == 1
        assert len(client.calls) == 201


async def test_each_batch_of_a_stream_of_texts_is_a_call_and_can_fail(client: FakeClient) -> None:
    client.fail(when=lambda call: "text 7" in call.texts, error=BROKEN)
    batches = client.embed_iter((f"text {number}" for number in range(20)), batch_size=5, in_flight=1)
    assert (await anext(batches)).shape == (5, 384)
    with pytest.raises(RequestFailed, match="broke"):
        await anext(batches)
    assert [len(call.texts) for call in client.calls[:2]] == [5, 5]


async def test_failures_come_in_the_order_in_which_they_were_asked_for(client: FakeClient) -> None:
    client.fail_next(BROKEN)
    client.fail_next(FULL)
    with pytest.raises(RequestFailed, match="broke"):
        await client.embed("text")
    with pytest.raises(Overloaded):
        await client.embed("text")


async def test_calls_can_be_chosen_to_fail(client: FakeClient) -> None:
    client.fail(when=lambda call: call.options.priority == "online" and call.task == "embed", error=FULL)
    for _ in range(3):
        with pytest.raises(Overloaded):
            await client.embed("text")
    assert (await client.embed("text", priority="batch")).shape == (384,)
    assert (await client.score("query", ["document"])).shape == (1,)
    client.heal()
    assert (await client.embed("text")).shape == (384,)


async def test_a_model_that_is_said_to_have_changed_is_read_anew_as_the_real_client_does(client: FakeClient) -> None:
    changed = ModelChanged(ErrorCode.MODEL_MISMATCH, "another revision")
    client.fail_next(changed)
    assert (await client.embed("text")).shape == (384,)
    client.fail_next(changed, times=2)
    with pytest.raises(ModelChanged):
        await client.embed("text")
    assert len(client.calls) == 2


@pytest.mark.parametrize("error", ["full", Overloaded, ValueError("no")])
async def test_what_is_no_error_of_the_client_cannot_be_ordered(client: FakeClient, error: Any) -> None:
    with pytest.raises(InputError, match="pass a HeadraceError"):
        client.fail_next(error)
    with pytest.raises(InputError, match="times is 0"):
        client.fail_next(FULL, times=0)


async def test_a_text_can_be_poison(client: FakeClient) -> None:
    client.fail_text("poison")
    vectors = await client.embed(["good", "poison", "poisonous"])
    assert list(vectors.errors) == [1]
    assert vectors.errors[1].code is ErrorCode.NON_FINITE
    assert np.isnan(vectors[1]).all()
    assert np.isfinite(vectors[[0, 2]]).all()
    with pytest.raises(ItemsFailed, match="non_finite"):
        await client.embed("poison")


async def test_texts_can_be_chosen_to_fail_for_a_reason_of_ones_own() -> None:
    async with FakeClient([fake_model("model", tasks=("embed", "score"), dtypes=("i8",))]) as client:
        reason = ItemError(ErrorCode.INVALID, "nobody can read it")
        client.fail_text(lambda text: text.startswith("x"), reason)
        vectors = await client.embed(["good", "xylophone"])
        scores = await client.score("x", ["good", "xylophone"])
    assert (dict(vectors.errors), dict(scores.errors)) == ({1: reason}, {1: reason})
    assert vectors[0].any()
    assert not vectors[1].any()
    assert np.isnan(scores[1])
    assert [place.index for place in scores.ranking] == [0]


async def test_a_call_without_reply_ends_at_its_timeout_and_can_be_cancelled(client: FakeClient) -> None:
    client.delay_s = math.inf
    with pytest.raises(DeadlineExceeded, match="no reply in time"):
        await client.embed("text", timeout=0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await client.embed("text")
    client.heal()
    assert (await client.embed("text")).shape == (384,)


async def test_a_delay_is_shorter_than_a_timeout_that_it_keeps(client: FakeClient) -> None:
    client.delay_s = 0.02
    assert (await client.embed("text", timeout=20)).usage.run_ms == pytest.approx(21)
    client.delay_s = 30
    with pytest.raises(DeadlineExceeded):
        await client.embed("text", timeout=0.02)


async def test_a_chunk_that_is_published_twice_is_answered_once(client: FakeClient) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    client.delay_s = 0.05
    waiting = asyncio.create_task(client.embed("text"))
    calls = client._exchange._calls
    await until(lambda: any(call.is_published for call in calls.values()), "the fleet has the chunk")
    client._exchange._tell_all(Outcome.LOST)  # as after a reconnection
    assert (await waiting).usage.chunks == 1
    assert (await client.embed("text")).usage.chunks == 1
    assert not unhandled


async def test_calls_that_wait_fail_when_the_client_is_closed() -> None:
    client = FakeClient(delay_s=math.inf)
    waiting = asyncio.create_task(client.embed("text"))
    await until(lambda: bool(client.calls), "the call waits")
    await client.close()
    with pytest.raises(ConnectionFailed, match="closed"):
        await waiting


@pytest.mark.parametrize("delay_s", [-1, math.nan, "1"])
def test_a_delay_that_is_none_is_refused(delay_s: Any) -> None:
    with pytest.raises(InputError, match="delay_s is"):
        FakeClient(delay_s=delay_s)


def test_it_can_be_made_without_an_event_loop_and_used_in_one() -> None:
    client = FakeClient()
    assert asyncio.run(client.embed("text")).shape == (384,)


async def test_a_fleet_without_models_says_how_to_start_one() -> None:
    async with FakeClient([]) as client:
        with pytest.raises(ModelNotFound, match="headrace worker MODEL"):
            await client.embed("text")


async def test_code_that_connects_by_itself_can_be_given_a_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.Client", FakeClient)
    import headrace  # noqa: PLC0415 - as the code under test does

    async with await headrace.Client.connect("nats://nowhere:4222", tenant="shop") as client:
        await client.embed("text")
        assert isinstance(client, Client)
        assert isinstance(client, FakeClient)
        assert client.calls[0].tenant == "shop"


async def test_code_that_connects_by_itself_can_be_given_the_fake_that_the_test_has(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: Any, **__: Any) -> FakeClient:
        return client

    monkeypatch.setattr(Client, "connect", connect)
    async with await Client.connect("nats://nowhere:4222") as connected:
        await connected.embed("text")
    assert client.calls[0].texts == ("text",)


def test_the_sync_fake_does_the_same_from_threads() -> None:
    with FakeSyncClient(models=[fake_model("model", dim=16)], tenant="shop") as client:
        assert [spec.name for spec in client.models()] == ["model"]
        assert client.embed(["one", "two"]).shape == (2, 16)
        assert [vectors.shape for vectors in client.embed_iter(["one", "two", "three"], batch_size=2)] == [
            (2, 16),
            (1, 16),
        ]
        assert client.state == "connected"
        client.fail_next(FULL)
        with pytest.raises(Overloaded):
            client.embed("text")
        client.fail(when=lambda call: "bad" in call.texts, error=BROKEN, times=1)
        with pytest.raises(RequestFailed):
            client.embed("bad")
        client.fail_text("worse")
        assert list(client.embed(["bad", "worse"]).errors) == [1]
        client.heal()
        client.delay_s = math.inf
        assert client.delay_s == math.inf
        with pytest.raises(DeadlineExceeded):
            client.embed("text", timeout=0.01)
        assert [call.tenant for call in client.calls] == ["shop"] * 7
    with pytest.raises(ConnectionFailed):
        client.embed("text")
