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
from headrace_contracts.access import Role, Scope, permissions
from headrace_contracts.credentials import Credentials
from survival.issuer import Issuer, new_user

from ..waiting import until
from .secured import CONFIGS


class Signed:
    """A user, whose files are written anew."""

    def __init__(self, issuer: Issuer, role: Role, scope: Scope, folder: Path) -> None:
        self.user = new_user()
        self.file = folder / f"{role}.toml"
        self.creds = folder / f"{role}.creds"
        self._issuer = issuer
        self._granted = permissions(role, role, scope)
        self.file.touch(0o600)
        self.file.write_text(f'name = "{role}"\ncreds_file = "{self.creds.name}"\n')
        self.creds.touch(0o600)

    def write_creds(self, seconds: int) -> None:
        self.creds.write_text(self._issuer.creds(self.user, self._granted, int(time.time()) + seconds))


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
    query = Signed(issuer, "query", Scope(), tmp_path)
    query.write_creds(2)
    with operated(issuer, tmp_path) as url:
        async with await Client.connect(url, access=Credentials.read(query.file)) as client:
            assert await client.models() == []
            await until(lambda: "refuses these credentials" in caplog.text, "the JWT has expired")
            await until(lambda: client.state == "reconnecting", "the loss is seen")
            query.creds.write_text("being written")
            query.write_creds(3600)
            await client.wait_connected()
            assert await client.models() == []
    assert str(query.user.seed.decode()) not in caplog.text


async def test_a_client_is_closed_in_order_while_its_credentials_have_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    query = Signed(issuer, "query", Scope(), tmp_path)
    query.write_creds(2)
    with operated(issuer, tmp_path) as url:
        async with await Client.connect(url, access=Credentials.read(query.file)) as client:
            await until(lambda: client.state == "reconnecting", "the JWT has expired")
            await until(lambda: "refuses these credentials" in caplog.text, "it was not let in again")
        gc.collect()
    assert "never retrieved" not in caplog.text


async def test_the_jwt_of_a_worker_with_many_queues_fits_in_a_line(tmp_path: Path) -> None:
    issuer = Issuer()
    scope = Scope(models=("a-model-with-quite-a-long-name-v2",), shards=4, queues=8, may_provision=True)
    worker = Signed(issuer, "worker", scope, tmp_path)
    worker.write_creds(3600)
    with operated(issuer, tmp_path) as url:
        nats, _ = await connection.connect(
            url, name="worker", inbox="hr.inbox.worker.x", timeout_s=5, access=Credentials.read(worker.file)
        )
        assert nats.is_connected
        await connection.close(nats)
