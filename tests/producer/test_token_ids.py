"""Token ids that a caller made: what is taken, what is refused, and that they give what the text gives."""

import asyncio
from typing import Any

import numpy as np
import pytest
from headrace import Client, InputError, SyncClient
from headrace.testing import FakeClient
from headrace.token_ids import listed, read_token_ids

from .specs import scorer

SPEC = scorer(tasks=("embed",), max_length=4, vocab_size=10)


def read(items: Any) -> list[list[int]]:
    return [ids.tolist() for ids in asyncio.run(read_token_ids(listed(items), SPEC)).sequences]


@pytest.mark.parametrize(
    "items",
    [
        [[0, 9], [1, 2, 3, 4]],
        ((0, 9), (1, 2, 3, 4)),
        ([0, 9] if first else [1, 2, 3, 4] for first in (True, False)),
        [np.array([0, 9]), np.array([1, 2, 3, 4], np.uint8)],
        [[np.int64(0), 9], np.array([1, 2, 3, 4], np.int16)],
    ],
    ids=["lists", "tuples", "generator", "arrays", "mixed"],
)
def test_sequences_of_ints_are_taken_as_they_are(items: Any) -> None:
    assert read(items) == [[0, 9], [1, 2, 3, 4]]


def test_no_sequence_is_no_error() -> None:
    assert read([]) == []


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (5, "token_ids is of type int"),
        ("text", "token_ids is of type str"),
        ([1, 2], r"token_ids\[0\] is of type int"),
        (["text"], r"token_ids\[0\] is of type str"),
        ([[1], None], r"token_ids\[1\] is of type NoneType"),
        ([[1], []], r"token_ids\[1\] has 0 token ids: .* takes 1 to 4"),
        ([[1] * 5], r"token_ids\[0\] has 5 token ids"),
        ([[1, 10]], r"token_ids\[0\] holds 10: .* are 0 to 9"),
        ([[1, -1]], r"token_ids\[0\] holds -1"),
        ([[2**70]], r"token_ids\[0\] holds 1180591620717411303424"),
        ([[1, 2.0]], r"token_ids\[0\] is of type list"),
        ([[True, False]], r"token_ids\[0\] is of type list"),
        ([np.array([1.0])], r"token_ids\[0\] is of type ndarray"),
        ([np.array([[1]])], r"token_ids\[0\] is of type ndarray"),
        ([np.array([True])], r"token_ids\[0\] is of type ndarray"),
        ([{1: 2}], r"token_ids\[0\] is of type dict"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(items: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        read(items)


async def test_the_ids_of_a_text_give_its_vector(fleet: str) -> None:
    texts = ["a mill by the river", "", "tokens to a device " * 20]
    async with await Client.connect(fleet) as client:
        (model,) = await client.models()
        tokenizer = await client.tokenizer(model.name)
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        np.testing.assert_allclose(await client.embed_ids(ids, strict=True), await client.embed(texts), atol=1e-6)
        cut = await client.embed_ids(ids, dim=8, normalize=False, priority="batch")
        np.testing.assert_allclose(cut, await client.embed(texts, dim=8, normalize=False), atol=1e-6)
        assert (await client.embed_ids([])).shape == (0, 384)


def test_threads_may_pass_ids_too(fleet: str) -> None:
    with SyncClient(fleet) as client:
        np.testing.assert_allclose(client.embed_ids([[101, 102]])[0], client.embed(""), atol=1e-6)
        with pytest.raises(InputError, match="30522"):
            client.embed_ids([[30522]])


async def test_a_call_may_be_bounded_in_tokens(fleet: str) -> None:
    async with await Client.connect(fleet, max_call_tokens=10) as client:
        assert (await client.embed(["five tokens are here"])).usage.tokens <= 10
        with pytest.raises(InputError, match="the call comes to 12 tokens: at most 10"):
            await client.embed(["a mill"] * 3)
        with pytest.raises(InputError, match="at most 10"):
            await client.embed_ids([[101] * 6] * 2)


async def test_a_fake_client_takes_ids_and_bounds_calls_as_the_real_one_does() -> None:
    async with FakeClient(max_call_tokens=6) as client:
        ids = (await client.tokenizer("fake-embedder")).encode("down the race").ids
        np.testing.assert_array_equal((await client.embed_ids([ids]))[0], await client.embed("down the race"))
        with pytest.raises(InputError, match="at most 6"):
            await client.embed_ids([ids] * 2)
