"""What a server that is not ready does not answer is asked again; what it refuses is not."""

import itertools

import pytest
from headrace import local
from headrace.bulk import room
from headrace.bulk.card import Card
from headrace.bulk.patience import patiently
from headrace.errors import BulkError, ConnectionFailed
from headrace_contracts.api import api
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import APIError, NoStreamResponseError

from .broker import connections


async def test_what_passes_by_itself_is_waited_for(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 1) as (nats,):
        passing = itertools.chain([NatsTimeoutError(), NoStreamResponseError(), OSError()])

        async def ask() -> str:
            for error in passing:
                raise error
            return "answered"

        assert await patiently(nats, ask) == "answered"


async def test_what_is_refused_is_said(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 1) as (nats,):

        async def ask() -> None:
            raise APIError.from_error({"code": 400, "err_code": 10052, "description": "max_age needs to be >= 100ms"})

        with pytest.raises(BulkError, match="max_age"):
            await patiently(nats, ask)


async def test_a_connection_that_is_closed_is_not_waited_for(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 1) as (nats,):
        await nats.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await patiently(nats, lambda: api(nats, "INFO"))


async def test_a_job_begins_though_the_server_does_not_answer_at_first(
    nats_server: local.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def silent_once(*arguments: object) -> object:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise NatsTimeoutError
        return await api(*arguments)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(room, "api", silent_once)
    card = Card(
        model="m",
        source="here",
        fingerprint="m/1",
        tokenizer="t",
        pooling="cls",
        prompt="",
        dim=4,
        dtype="f32",
        normalize=True,
        max_length=8,
        compute_dtype="float32",
    )
    async with connections(nats_server.url, 1) as (nats,):
        await room.check_results(nats, card, 10)
    assert asked == 2
