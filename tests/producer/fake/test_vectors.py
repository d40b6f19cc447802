"""The fake's vectors and scores: the same everywhere, different for different texts, alike for texts alike."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from headrace import Client, InputError
from headrace.testing import FakeClient, FakeSyncClient, fake_model
from hypothesis import given, settings
from hypothesis import strategies as st

words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8) | st.sampled_from(
    ["water", "Water", "wheel", ".", ","]
)


def test_vectors_are_the_same_in_every_process_and_version() -> None:
    code = """
from headrace.testing import FakeSyncClient, fake_model
with FakeSyncClient(models=[fake_model("model", dim=4)]) as client:
    print(*(f"{number:.4f}" for number in client.embed("where does the water go?")))
"""
    seen = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", code]
        seen.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    assert seen == {"-0.3945 0.5666 -0.0205 -0.7232"}


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(words, max_size=6).map(" ".join), min_size=2, max_size=2, unique=True))
def test_different_words_or_another_order_give_another_vector(texts: list[str]) -> None:
    with FakeSyncClient(models=[fake_model("model", dim=8)]) as client:
        one, other = client.embed(texts)
        same = client.embed(texts[0])
    assert np.abs(one - other).max() > 1e-4
    np.testing.assert_array_equal(same, one)


async def test_a_thousand_short_texts_have_a_thousand_vectors() -> None:
    async with FakeClient([fake_model("model", dim=4)]) as client:
        vectors = await client.embed([f"text{number}" for number in range(1000)])
    assert len(np.unique(np.asarray(vectors), axis=0)) == 1000


async def test_the_more_two_texts_share_the_nearer_they_are() -> None:
    async with FakeClient() as client:
        vectors = await client.embed(
            ["the wheel turns slowly", "the wheel turns fast", "the wheels turned", "a wheel", "price of flour"]
        )
    nearness = (vectors @ vectors[0])[1:]
    assert (np.diff(nearness) < 0).all()
    assert nearness[0] > 0.6
    assert abs(nearness[-1]) < 0.2


async def test_two_models_give_two_vectors() -> None:
    async with FakeClient([fake_model("one"), fake_model("two")]) as client:
        one, two = [await client.embed("text", model=name) for name in ("one", "two")]
    assert abs(one @ two) < 0.3


async def test_bits_and_int8_are_made_of_the_same_vector() -> None:
    async with FakeClient([fake_model("model", dim=20, dtypes=("i8", "b1", "f32"))]) as client:
        floats = await client.embed(["one", "two"], dtype="f32", normalize=False)
        default, bits = await client.embed(["one", "two"]), await client.embed(["one", "two"], dtype="b1", dim=12)
    assert default.dtype == np.int8
    np.testing.assert_array_equal(default, np.rint(127 * np.tanh(floats)))
    assert np.abs(default).max() > 20
    np.testing.assert_array_equal(bits, np.packbits(np.asarray(floats)[:, :12] >= 0, axis=1))


@pytest.mark.parametrize(
    ("document", "score"),
    [
        ("where does the water go?", 1.0),
        ("Go where the water does?", 0.9),
        ("", 0.0),
        ("price of flour", 0.0),
        ("water", 0.9 / 6 + 0.1),
    ],
)
async def test_a_score_is_the_share_of_the_querys_words(document: str, score: float) -> None:
    async with FakeClient() as client:
        found = float(await client.score("where does the water go?", document))
        raw = float(await client.score("where does the water go?", document, raw=True))
    assert found == pytest.approx(score, abs=0.06)
    assert raw == pytest.approx(10 * found - 5, abs=1e-5)


async def test_a_prompt_stands_before_the_text_and_moves_its_vector() -> None:
    prompted = fake_model("model", prompts={"query": "query: ", "passage": "passage: "}, default_prompt="passage")
    async with FakeClient([prompted, fake_model("plain")]) as client:
        by_default = await client.embed("text", model="model")
        query = await client.embed("text", model="model", prompt_name="query")
        assert by_default @ query < 0.95
        assert query.usage.tokens == 2 + 3
        with pytest.raises(InputError, match="prompt_name is 'other': model has passage, query"):
            await client.embed("text", model="model", prompt_name="other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Not A Name"}, "'Not A Name' cannot be"),
        ({"name": "model", "dim": 0}, "'model' cannot be"),
        ({"name": "model", "dtypes": ()}, "'model' cannot be"),
        ({"name": "model", "tasks": ("translate",)}, "'model' cannot be"),
        ({"name": "model", "default_prompt": "query"}, "default_prompt 'query' is none of the prompts"),
    ],
)
def test_a_model_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fake_model(**arguments)


def test_models_that_are_none_or_twice_the_same_are_refused() -> None:
    with pytest.raises(InputError, match="models has 'minilm': pass ModelSpecs"):
        FakeClient(["minilm"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="'model' twice"):
        FakeClient([fake_model("model"), fake_model("model")])


async def nearest(client: Client, query: str, passages: list[str]) -> str:
    """What a user's own code may look like: it asks for the real class."""
    return passages[int(np.argmax(await client.embed(passages) @ await client.embed(query)))]


async def test_code_that_asks_for_a_client_takes_the_fake() -> None:
    async with FakeClient() as client:
        assert await nearest(client, "where is the mill?", ["over the sea", "the mill is by the river"]) == (
            "the mill is by the river"
        )
