"""Operator mode: a user signs in by a creds file, whose JWT may expire and be replaced while programs run."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import pytest
from headrace import Client, local
from headrace_contracts import connection
from headrace_contracts.access import Role, Scope
from survival.issuer import Issuer
from survival.passes import Pass

from ..waiting import until
from .secured import CONFIGS


def lasting(issuer: Issuer, role: Role, scope: Scope, folder: Path, seconds: int) -> Pass:
    """A user whose first credentials end then; `renew` writes such as last."""
    made = Pass(issuer, role, role, scope, folder)
    made.end_at([int(time.time()) + seconds])
    return made


@contextmanager
def operated(issuer: Issuer, folder: Path) -> Iterator[str]:
    """A server with the limits of ops/nats that knows an issuer."""
    copy(CONFIGS / "limits.conf", folder)
    config = folder / "jwt.conf"
    config.write_text(f"include limits.conf\n{issuer.settings}")
    with local._server(-1, "-c", str(config), "-js", "-sd", str(folder / "store")) as server:
        yield server.url


async def test_a_creds_file_lets_its_user_in_and_a_new_one_once_the_old_has_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    query = lasting(issuer, "query", Scope(), tmp_path, 2)
    with operated(issuer, tmp_path) as url:
        async with await Client.connect(url, access=query.credentials) as client:
            assert await client.models() == []
            await until(lambda: "refuses these credentials" in caplog.text, "the JWT has expired")
            await until(lambda: client.state == "reconnecting", "the loss is seen")
            creds = tmp_path / "query.creds"
            seed = creds.read_text().split("USER NKEY SEED-----\n")[1].split("\n")[0]
            creds.write_text("being written")
            query.renew()
            await client.wait_connected()
            assert await client.models() == []
    assert seed.startswith("SU")
    assert seed not in caplog.text


async def test_a_client_is_closed_in_order_while_its_credentials_have_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    query = lasting(issuer, "query", Scope(), tmp_path, 2)
    with operated(issuer, tmp_path) as url:
        async with await Client.connect(url, access=query.credentials) as client:
            await until(lambda: client.state == "reconnecting", "the JWT has expired")
            await until(lambda: "refuses these credentials" in caplog.text, "it was not let in again")
        gc.collect()
    assert "never retrieved" not in caplog.text


async def test_the_jwt_of_a_worker_with_many_queues_fits_in_a_line(tmp_path: Path) -> None:
    issuer = Issuer()
    scope = Scope(models=("a-model-with-quite-a-long-name-v2",), shards=4, queues=8, may_provision=True)
    worker = lasting(issuer, "worker", scope, tmp_path, 3600)
    with operated(issuer, tmp_path) as url:
        nats, _ = await connection.connect(
            url, name="worker", inbox="hr.inbox.worker.x", timeout_s=5, access=worker.credentials
        )
        assert nats.is_connected
        await connection.close(nats)
