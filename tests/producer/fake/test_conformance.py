"""What holds for the client over a real fleet holds for the fake one: the same assertions, run against both."""

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from headrace import (
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    Embeddings,
    ErrorCode,
    InputError,
    ItemsFailed,
    ModelNotFound,
    Overloaded,
    Ranked,
    Scores,
    local,
)
from headrace.testing import FakeClient, fake_model
from headrace_engine import Engine

from ...conftest import DEMO_MODEL
from ...fleet.small_scorer import MAX_LENGTH, POISON, save_scorer

SCORER = "scorer"
QUERY = "where does the water go?"
DOCUMENTS = ["the water goes down the race", "the price of flour", "over the wheel"]


@pytest.fixture(scope="module")
def real_fleet(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a fleet with a model that embeds and one that scores."""
    scorer = save_scorer(minilm, tmp_path_factory.mktemp(SCORER))
    options = ("--dtype", "float32")
    with (
        local.server() as server,
        local.worker(DEMO_MODEL, server.url, *options),
        local.worker(str(scorer), server.url, "--name", SCORER, *options),
    ):
        yield server.url


@pytest.fixture(params=["real", "fake"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client over a real fleet, and a fake one over models of the same names, limits and tasks."""
    if request.param == "real":
        async with await Client.connect(request.getfixturevalue("real_fleet")) as real:
            yield real
    else:
        scorer = fake_model(SCORER, tasks=("score",), dim=1, dtypes=("f32",), normalize=False, max_length=MAX_LENGTH)
        async with FakeClient([fake_model(DEMO_MODEL, max_length=256), scorer]) as fake:
            fake.fail_text(lambda text: POISON in text)
            yield fake


async def test_models_are_listed_by_name_with_what_they_can_do(client: Client) -> None:
    embedder, scorer = await client.models()
    assert (embedder.name, embedder.tasks, embedder.dim, embedder.max_length) == (DEMO_MODEL, ("embed",), 384, 256)
    assert (scorer.name, scorer.tasks, scorer.dim, scorer.max_length) == (SCORER, ("score",), 1, MAX_LENGTH)
    assert (embedder.dtypes, embedder.default_dtype, embedder.normalize) == (("f32", "f16"), "f32", True)


async def test_a_single_text_gives_a_vector_and_a_list_a_matrix(client: Client) -> None:
    one, many, none = await client.embed("one"), await client.embed(iter(["one", "two"])), await client.embed([])
    assert [type(vectors) for vectors in (one, many, none)] == [Embeddings] * 3
    assert (one.shape, many.shape, none.shape) == ((384,), (2, 384), (0, 384))
    assert (none.usage.tokens, none.usage.chunks) == (0, 0)
    np.testing.assert_allclose(many[0], one, atol=1e-6)


async def test_vectors_have_length_one_unless_asked_otherwise(client: Client) -> None:
    np.testing.assert_allclose(np.linalg.norm(await client.embed(DOCUMENTS), axis=1), 1, atol=1e-5)
    assert (abs(np.linalg.norm(await client.embed(DOCUMENTS, normalize=False), axis=1) - 1) > 0.01).all()


async def test_fewer_dimensions_are_the_first_ones_at_length_one(client: Client) -> None:
    full, cut = await client.embed("text"), await client.embed("text", dim=64)
    np.testing.assert_allclose(cut, full[:64] / np.linalg.norm(full[:64]), atol=1e-5)


async def test_dtypes_are_those_that_were_asked_for(client: Client) -> None:
    full, half = await client.embed("text"), await client.embed("text", dtype="f16")
    assert (full.dtype.name, half.dtype.name) == ("float32", "float16")
    np.testing.assert_allclose(half, full, atol=1e-3)


async def test_a_text_that_shares_words_is_nearer_than_one_that_does_not(client: Client) -> None:
    near, far = await client.embed(DOCUMENTS[:2]) @ await client.embed(QUERY)
    assert near > far + 0.1


@pytest.mark.parametrize("blank", ["", " ", "\n\t  ", "\x00", "\u200b"])
async def test_blank_texts_get_the_vector_of_an_empty_text(client: Client, blank: str) -> None:
    vectors = await client.embed(["", blank, "not blank"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-6)
    assert vectors.usage.tokens == 2 + 2 + 4


async def test_odd_texts_are_read_alike(client: Client) -> None:
    vectors = await client.embed(["water\x00wheel", "waterwheel", "caf\ud800e", "caf\ufffde", "\u6c34\u8eca", "!?"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[[0, 2]], vectors[[1, 3]], atol=1e-6)


async def test_usage_counts_tokens_and_chunks(client: Client) -> None:
    few, many = await client.embed(["one two", "three!"]), await client.embed(["the wheel turns"] * 2000)
    assert (few.usage.tokens, few.usage.chunks) == (4 + 4, 1)
    assert many.usage.tokens == 2000 * 5
    assert many.usage.chunks > 1
    assert many.usage.run_ms > 0


async def test_long_texts_are_cut_and_said_to_be(client: Client) -> None:
    vectors = await client.embed(["short", "wheel " * 300])
    assert vectors.truncated == (1,)
    assert vectors.usage.tokens == 3 + 256
    assert not vectors.errors


async def test_without_truncation_a_long_text_fails_alone_and_says_its_length(client: Client) -> None:
    vectors = await client.embed(["short", "wheel " * 300, "also short"], truncate=False)
    assert list(vectors.errors) == [1]
    assert vectors.errors[1].code is ErrorCode.TOO_LONG
    assert vectors.errors[1].text == f"302 tokens: max_length of {DEMO_MODEL} is 256"
    assert np.isnan(vectors[1]).all()
    assert np.isfinite(vectors[[0, 2]]).all()


async def test_single_and_strict_calls_raise_what_failed(client: Client) -> None:
    with pytest.raises(ItemsFailed, match=r"1 text has no vector; the first is texts\[0\]: too_long: 302 tokens"):
        await client.embed("wheel " * 300, truncate=False)
    with pytest.raises(ItemsFailed, match=r"the first is texts\[1\]") as caught:
        await client.embed(["short", "wheel " * 300], truncate=False, strict=True)
    assert list(caught.value.errors) == [1]
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - we wrote it
    assert (type(again), str(again), again.errors) == (ItemsFailed, str(caught.value), caught.value.errors)


async def test_a_document_that_spoils_its_score_spoils_no_other(client: Client) -> None:
    scores = await client.score(QUERY, [*DOCUMENTS, f"water and {POISON}"])
    assert list(scores.errors) == [3]
    assert scores.errors[3].code is ErrorCode.NON_FINITE
    assert np.isnan(scores[3])
    assert sorted(place.index for place in scores.ranking) == [0, 1, 2]
    with pytest.raises(ItemsFailed, match=r"1 document has no score; the first is documents\[0\]: non_finite"):
        await client.score(QUERY, POISON)


async def test_scores_lie_between_0_and_1_and_are_ranked(client: Client) -> None:
    scores, top = await client.score(QUERY, DOCUMENTS), await client.score(QUERY, DOCUMENTS, top_n=2)
    assert isinstance(scores, Scores)
    assert (scores.shape, scores.dtype.name) == ((3,), "float32")
    assert ((scores >= 0) & (scores <= 1)).all()
    best_first = np.argsort(-np.asarray(scores), kind="stable")
    assert scores.ranking == tuple(Ranked(int(index), float(scores[index])) for index in best_first)
    assert top.ranking == scores.ranking[:2]


async def test_raw_scores_are_in_the_same_order_without_the_bounds(client: Client) -> None:
    documents = [*DOCUMENTS, QUERY, "", "the wheel goes where the water is"]
    scores, raw = await client.score(QUERY, documents), await client.score(QUERY, documents, raw=True)
    np.testing.assert_array_equal(np.argsort(raw, kind="stable"), np.argsort(scores, kind="stable"))
    assert ((raw < 0) | (raw > 1)).any()


async def test_a_single_document_gives_a_number_and_none_an_empty_array(client: Client) -> None:
    one, many = await client.score(QUERY, DOCUMENTS[0]), await client.score(QUERY, DOCUMENTS)
    assert one.shape == ()
    assert float(one) == pytest.approx(float(many[0]), abs=1e-6)
    assert (await client.score(QUERY, [])).shape == (0,)


async def test_a_long_pair_loses_the_end_of_its_document(client: Client) -> None:
    scores = await client.score(QUERY, ["short", "wheel " * 100])
    assert scores.truncated == (1,)
    assert scores.usage.tokens == (3 + 6 + 1) + MAX_LENGTH
    failed = await client.score(QUERY, ["short", "wheel " * 100], truncate=False)
    assert failed.errors[1].code is ErrorCode.TOO_LONG


async def test_a_query_that_leaves_no_room_is_refused_with_its_length(client: Client) -> None:
    with pytest.raises(InputError, match=r"query has 70 tokens.* may have 64 in all, so a query may have 60"):
        await client.score("wheel " * 70, DOCUMENTS)


@pytest.mark.parametrize("kind", ["embed", "score"])
async def test_results_can_be_copied_and_pickled(client: Client, kind: str) -> None:
    long = ["short", "wheel " * 300]
    result: Any = await (client.embed(long) if kind == "embed" else client.score(QUERY, long))
    for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):  # noqa: S301
        assert type(twin) is type(result)
        assert (twin.truncated, twin.errors, twin.usage) == (result.truncated, result.errors, result.usage)
        np.testing.assert_array_equal(twin, result)


@pytest.mark.parametrize("texts", [None, b"bytes", 7, ["a", None], {"a": 1}])
async def test_what_is_no_text_is_refused(client: Client, texts: Any) -> None:
    with pytest.raises(InputError, match="texts"):
        await client.embed(texts)
    with pytest.raises(InputError, match="documents"):
        await client.score(QUERY, texts)
    with pytest.raises(InputError, match="query is"):
        await client.score(texts, DOCUMENTS)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("dim", 0, "dim is 0: .* 1 to 384"),
        ("dim", 385, "dim is 385"),
        ("dtype", "f64", "dtype is 'f64': .* f32, f16"),
        ("dtype", "i8", "dtype is 'i8': .* f32, f16"),
        ("priority", "urgent", "priority is 'urgent': choose one of online, batch"),
        ("prompt_name", "query", "prompt_name is 'query': .* no prompts"),
        ("timeout", 0, "timeout is 0"),
        ("normalize", "yes", "normalize is 'yes': pass True or False"),
        ("truncate", None, "truncate is None: pass True or False"),
        ("tenant", "not a name", "tenant 'not a name'"),
        ("retries", -1, "retries is -1"),
        ("traceparent", "none", "traceparent is 'none'"),
        ("model", 5, "model is 5: pass the name"),
        ("model", "Not A Name", "Not A Name"),
        ("model", SCORER, f"{SCORER} can score, not embed: say model={DEMO_MODEL}"),
    ],
)
async def test_a_wrong_option_is_refused_and_named(client: Client, option: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        await client.embed("text", **{option: value})


@pytest.mark.parametrize(("option", "value"), [("top_n", 0), ("raw", 1), ("model", DEMO_MODEL)])
async def test_a_wrong_option_of_a_score_is_refused_and_named(client: Client, option: str, value: Any) -> None:
    with pytest.raises(InputError, match=option):
        await client.score(QUERY, DOCUMENTS, **{option: value})


async def test_an_unknown_model_is_said_with_those_there_are(client: Client) -> None:
    with pytest.raises(ModelNotFound, match=rf"does not serve 'nosuch' \(it serves: {DEMO_MODEL}, {SCORER}\)"):
        await client.embed("text", model="nosuch")


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_both_priorities_and_any_tenant_give_the_same(client: Client, priority: Any) -> None:
    vector = await client.embed("text", priority=priority, tenant="search")
    np.testing.assert_allclose(vector, await client.embed("text"), atol=1e-6)


async def test_concurrent_calls_get_their_own_results(client: Client) -> None:
    texts = [f"text {number}" for number in range(20)]
    one_by_one = await asyncio.gather(*map(client.embed, texts))
    np.testing.assert_allclose(np.stack(one_by_one), await client.embed(texts), atol=1e-5)


async def test_texts_are_embedded_while_they_are_read(client: Client) -> None:
    texts = [f"text {number}" for number in range(10)]
    batches = [vectors async for vectors in client.embed_iter(iter(texts), batch_size=4, dim=64)]
    assert [(type(vectors), vectors.shape) for vectors in batches] == [(Embeddings, (n, 64)) for n in (4, 4, 2)]
    np.testing.assert_allclose(np.concatenate(batches), await client.embed(texts, dim=64), atol=1e-5)
    with pytest.raises(InputError, match="batch_size is 0"):
        client.embed_iter(texts, batch_size=0)


async def test_a_cancelled_call_leaves_the_client_in_order(client: Client) -> None:
    call = asyncio.create_task(client.embed(["text"] * 3000))
    await client.embed("something else")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.embed("still works")).shape == (384,)


async def test_a_closed_client_says_so(client: Client) -> None:
    await client.embed("the model is known now")
    await client.wait_connected()
    assert (client.is_connected, client.state) == (True, "connected")
    await client.close()
    await client.close()
    assert (client.is_connected, client.state) == (False, "closed")
    for late in (client.embed("text"), client.score(QUERY, DOCUMENTS), client.models(), client.wait_connected()):
        with pytest.raises(ConnectionFailed):
            await late


def test_errors_can_be_pickled() -> None:
    for error in (Overloaded(ErrorCode.OVERLOADED, "text", 1.5), DeadlineExceeded(ErrorCode.EXPIRED, "text")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - we wrote it
        assert type(again) is type(error)
        assert (str(again), again.code, again.retry_after_s) == ("text", error.code, error.retry_after_s)
