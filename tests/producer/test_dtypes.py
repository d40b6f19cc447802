"""Vectors of a model that was trained to be read as int8 or bits, from the engine to a file."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from headrace import Client, InputError, local
from headrace_engine import Engine

from ..fleet.harness import brisk, running
from ..headrace_command import run


@pytest.fixture
async def quantised(nats_server: local.Server, minilm: Engine) -> AsyncIterator[str]:
    """URL of a fleet whose model says that it may be read in every dtype, and best in int8."""
    head = replace(cast("Any", minilm.checkpoint.head), dtypes=("i8", "b1", "f32", "f16"))
    engine = copy.copy(minilm)
    engine.checkpoint = replace(minilm.checkpoint, head=head)
    async with running(engine, brisk(nats_server.url)):
        yield nats_server.url


@pytest.fixture
async def client(quantised: str) -> AsyncIterator[Client]:
    async with await Client.connect(quantised) as client:
        yield client


async def test_without_a_dtype_vectors_come_in_the_models_own(client: Client) -> None:
    floats = await client.embed(["one", "two"], dtype="f32", normalize=False)
    vectors = await client.embed(["one", "two"])
    assert vectors.dtype == np.int8
    np.testing.assert_allclose(vectors, np.rint(127 * np.tanh(floats)), atol=1)


@pytest.mark.parametrize("dim", [None, 16, 9])
async def test_bits_are_eight_to_a_byte_with_the_first_dimension_highest(client: Client, dim: int | None) -> None:
    floats = await client.embed(["one", "two"], dtype="f32", dim=dim)
    bits = await client.embed(["one", "two"], dtype="b1", dim=dim)
    assert bits.dtype == np.uint8
    assert bits.shape == (2, -(-(dim or 384) // 8))
    np.testing.assert_array_equal(bits, np.packbits(np.asarray(floats) >= 0, axis=1))


async def test_a_text_without_a_vector_has_zeros_where_there_is_no_nan(client: Client) -> None:
    vectors = await client.embed(["short", "wheel " * 300], truncate=False)
    assert vectors[0].any()
    assert not vectors[1].any()
    assert list(vectors.errors) == [1]


async def test_a_dtype_that_no_model_has_is_refused(client: Client) -> None:
    with pytest.raises(InputError, match=r"dtype is 'f64': .* i8, b1, f32, f16"):
        await client.embed("text", dtype="f64")  # type: ignore[arg-type]


async def test_json_lines_hold_whole_numbers(quantised: str) -> None:
    ended = await asyncio.to_thread(run, "embed", "one", fleet=quantised)
    row = json.loads(ended.stdout)["embedding"]
    assert len(row) == 384
    assert all(isinstance(value, int) and -127 <= value <= 127 for value in row)


@pytest.mark.parametrize(("dtype", "shape"), [("i8", (2, 384)), ("b1", (2, 48))])
async def test_files_hold_the_bytes_as_they_came(
    quantised: str, tmp_path: Path, dtype: str, shape: tuple[int, int]
) -> None:
    array, table = tmp_path / "out.npy", tmp_path / "out.parquet"
    for output in (array, table):
        arguments = ("embed", "one", "wheel " * 300, "--no-truncate", "--dtype", dtype, "-o", str(output))
        ended = await asyncio.to_thread(run, *arguments, fleet=quantised)
        assert ended.returncode == 3, ended.stderr
    vectors = np.load(array)
    assert vectors.dtype == {"i8": np.int8, "b1": np.uint8}[dtype]
    assert vectors.shape == shape
    rows = pq.read_table(table).to_pylist()
    assert rows[0]["embedding"] == vectors[0].tolist()
    assert rows[1]["embedding"] is None
