"""OpenAI's own client against the gateway, beside our own client."""

import base64
from collections.abc import Iterator
from typing import Literal

import httpx
import numpy as np
import openai
import pytest
from headrace import SyncClient

from ..conftest import DEMO_MODEL
from .conftest import SCORER
from .running import Running

TEXTS = ["a mill by the river", "tokens to a device", "", "caf\u00e9 \u6c34"]


@pytest.fixture(scope="module")
def theirs(served: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as theirs:
        yield theirs


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_openais_client_gets_the_vectors_of_ours(
    theirs: openai.OpenAI, client: SyncClient, encoding: Literal["float", "base64"] | None
) -> None:
    reply = theirs.embeddings.create(model=DEMO_MODEL, input=TEXTS, encoding_format=encoding or openai.omit)
    rows = [item.embedding for item in reply.data]
    if encoding == "base64":  # asked for by name it comes as it is; by default their client decodes it
        rows = [np.frombuffer(base64.b64decode(row), "<f4").tolist() for row in rows]  # type: ignore[arg-type]
    ours = client.embed(TEXTS)
    np.testing.assert_allclose(rows, ours, atol=1e-6)
    assert [item.index for item in reply.data] == [0, 1, 2, 3]
    assert reply.model == DEMO_MODEL
    assert reply.usage.prompt_tokens == reply.usage.total_tokens == ours.usage.tokens


async def test_so_does_their_asynchronous_client(served: Running, client: SyncClient) -> None:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as theirs:
        reply = await theirs.embeddings.create(model=DEMO_MODEL, input=TEXTS[0], user="somebody")
    np.testing.assert_allclose(reply.data[0].embedding, client.embed(TEXTS[0]), atol=1e-6)


def test_dimensions_are_the_leading_ones(theirs: openai.OpenAI, client: SyncClient) -> None:
    reply = theirs.embeddings.create(model=DEMO_MODEL, input=TEXTS, dimensions=8)
    np.testing.assert_allclose([item.embedding for item in reply.data], client.embed(TEXTS, dim=8), atol=1e-6)


def test_token_ids_are_taken_alone_and_in_lists(theirs: openai.OpenAI, client: SyncClient) -> None:
    ids = [101, 2012, 1037, 4971, 102]
    alone = theirs.embeddings.create(model=DEMO_MODEL, input=ids)
    listed = theirs.embeddings.create(model=DEMO_MODEL, input=[ids, ids[:3]])
    ours = client.embed_ids([ids, ids[:3]], model=DEMO_MODEL)
    np.testing.assert_allclose(alone.data[0].embedding, ours[0], atol=1e-6)
    np.testing.assert_allclose([item.embedding for item in listed.data], ours, atol=1e-6)


def test_models_are_listed_and_told_of(theirs: openai.OpenAI) -> None:
    assert [model.id for model in theirs.models.list()] == [DEMO_MODEL, SCORER]
    model = theirs.models.retrieve(DEMO_MODEL)
    assert model.object == "model"
    assert model.model_extra == {"tasks": ["embed"], "max_model_len": 256, "dimensions": 384}


def test_the_model_may_be_left_out_while_one_embeds(http: httpx.Client) -> None:
    assert http.post("/v1/embeddings", json={"input": "text"}).json()["model"] == DEMO_MODEL


def test_an_unknown_model_is_not_found_and_the_error_says_which_there_are(theirs: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"serves {DEMO_MODEL}, {SCORER}") as caught:
        theirs.embeddings.create(model="text-embedding-3-small", input="text")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        theirs.models.retrieve("nobody's")


def test_a_text_that_is_too_long_is_an_error_unless_it_may_be_cut(theirs: openai.OpenAI, client: SyncClient) -> None:
    long = "wheel " * 300
    with pytest.raises(openai.BadRequestError, match=r"302 tokens: max_length of .* is 256"):
        theirs.embeddings.create(model=DEMO_MODEL, input=[TEXTS[0], long])
    raw = theirs.embeddings.with_raw_response.create(model=DEMO_MODEL, input=long, extra_body={"truncate": True})
    assert raw.headers["X-Headrace-Truncated"] == "1"
    np.testing.assert_allclose(raw.parse().data[0].embedding, client.embed(long), atol=1e-6)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"input": []}, "input is empty"),
        ({"input": [[]]}, r"input\[0\]: Expected `array` of length >= 1"),
        ({"input": ["text", 5]}, "input mixes"),
        ({"input": [5, "text"]}, "input mixes"),
        ({"input": [[101], "text"]}, "input mixes"),
        ({"input": [[101, 30522, 102]]}, r"input\[0\] holds 30522"),
        ({"input": [[101] * 257]}, r"input\[0\] has 257 token ids: .* takes 1 to 256"),
        ({"input": [-1]}, "Expected `int` >= 0"),
        ({"input": [101], "prompt_name": "query"}, "prompt_name: token ids"),
        ({"input": "text", "prompt_name": "query"}, "prompt_name is 'query'"),
        ({"input": "text", "dimensions": 385}, "dimensions is 385"),
        ({"input": ["text", "wheel " * 300]}, r"the first is input\[1\]: too_long: 302 tokens"),
        ({"input": "text", "dimensions": 0}, "dimensions: Expected `int` >= 1"),
        ({"input": "text", "encoding_format": "int8"}, "encoding_format: Invalid enum value 'int8'"),
        ({"input": "text", "model": SCORER}, "can score"),
        ({"input": "text", "model": 5}, "model: Expected `str"),
        ({"input": None}, "input: Expected `str"),
        ({"input": {"text": "text"}}, "input: Expected `str"),
        ({"text": "text"}, "unknown field `text`"),
        ({}, "missing required field `input`"),
        ([], "Expected `object`"),
    ],
)
def test_what_is_wrong_is_a_bad_request_that_names_the_field(theirs: openai.OpenAI, body: object, what: str) -> None:
    with pytest.raises(openai.BadRequestError, match=what) as caught:
        theirs.post("/embeddings", cast_to=httpx.Response, body=body)
    assert caught.value.type == "invalid_request_error"
    if isinstance(body, dict) and body.get("model") != SCORER:  # that may be the wrong model as well as the wrong path
        assert caught.value.param == next(reversed(body), "input"), "the last one is wrong in all of them"
