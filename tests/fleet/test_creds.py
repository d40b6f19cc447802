"""Operator mode: a user signs in by a creds file, whose JWT may expire and be replaced while programs run."""

import base64
import hashlib
import json
import secrets
import time
from pathlib import Path
from typing import Any

import nkeys
import pytest
from headrace import Client, local
from headrace_contracts.access import Scope, permissions
from headrace_contracts.credentials import Credentials

from ..waiting import until


def _pair(kind: int) -> Any:
    return nkeys.from_seed(bytearray(nkeys.encode_seed(secrets.token_bytes(32), kind)))


def _jwt(issuer: Any, subject: str, name: str, claims: dict[str, Any], **more: int) -> str:
    """What `nsc` makes (NATS ADR-14): claims of version 2, signed by the issuer's nkey."""
    body: dict[str, Any] = {"iat": int(time.time()), "iss": issuer.public_key.decode(), "name": name, "sub": subject}
    body |= {"nats": {"version": 2, **claims}, **more}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    parts = [_part(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    return ".".join([*parts, _part(issuer.sign(".".join(parts).encode()))])


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_a_creds_file_lets_its_user_in_and_a_new_one_once_the_old_has_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    operator, user = _pair(nkeys.PREFIX_BYTE_OPERATOR), _pair(nkeys.PREFIX_BYTE_USER)
    account, system = _pair(nkeys.PREFIX_BYTE_ACCOUNT), _pair(nkeys.PREFIX_BYTE_ACCOUNT)
    limits: dict[str, Any] = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    storage = {"mem_storage": 1 << 30, "disk_storage": 1 << 30, "streams": -1, "consumer": -1, "wildcards": True}
    ids = account.public_key.decode(), system.public_key.decode()
    accounts = (
        _jwt(operator, ids[0], "fleet", {"type": "account", "limits": {**limits, **storage}}),
        _jwt(operator, ids[1], "system", {"type": "account", "limits": limits}),
    )
    config = tmp_path / "jwt.conf"
    by_itself = _jwt(operator, operator.public_key.decode(), "op", {"type": "operator"})
    preloaded = "\n".join(f"{each}: {jwt}" for each, jwt in zip(ids, accounts, strict=True))
    config.write_text(
        f"operator: {by_itself}\nsystem_account: {ids[1]}\nresolver: MEMORY\nresolver_preload: {{\n{preloaded}\n}}\n"
    )
    granted = permissions("query", "search", Scope())
    claims: dict[str, Any] = {"type": "user", "pub": {"allow": granted.publish}, "sub": {"allow": granted.subscribe}}
    claims |= dict.fromkeys(("subs", "data", "payload"), -1)

    def write_creds(seconds: int) -> None:
        jwt = _jwt(account, user.public_key.decode(), "search", claims, exp=int(time.time()) + seconds)
        blocks = (("NATS USER JWT", jwt), ("USER NKEY SEED", user.seed.decode()))
        text = "\n".join(f"-----BEGIN {name}-----\n{data}\n------END {name}------\n" for name, data in blocks)
        (tmp_path / "search.creds").write_text(text)
        (tmp_path / "search.creds").chmod(0o600)

    write_creds(2)
    path = tmp_path / "search.toml"
    path.write_text('name = "search"\ncreds_file = "search.creds"\n')
    path.chmod(0o600)
    with local._server(-1, "-c", str(config), "-js", "-sd", str(tmp_path / "store")) as server:
        async with await Client.connect(server.url, access=Credentials.read(path)) as client:
            assert await client.models() == []
            await until(lambda: "refuses these credentials" in caplog.text, "the JWT has expired")
            await until(lambda: client.state == "reconnecting", "the loss is seen")
            (tmp_path / "search.creds").write_text("being written")
            write_creds(3600)
            await client.wait_connected()
            assert await client.models() == []
    assert str(user.seed.decode()) not in caplog.text
