"""API keys: how they are written down, whose they are, and who is let in."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from headrace import InputError
from headrace.gateway.keys import Keys

from ..conftest import DEMO_MODEL
from .running import gateway

LINES = ["# ours", "", "search:one", "search  two ", "index:a:b c"]
BODY: dict[str, Any] = {"input": "text", "model": DEMO_MODEL}


@pytest.mark.parametrize(
    ("header", "owner"),
    [
        ("Bearer one", "search"),
        ("bearer two", "search"),
        ("BEARER  two ", "search"),
        ("Bearer a:b c", "index"),
        ("Bearer a:b", None),
        ("Bearer one two", None),
        ("Bearer ", None),
        ("Bearer", None),
        ("one", None),
        ("Basic one", None),
        ("Bearer \ud800", None),
        ("", None),
    ],
)
def test_a_header_has_an_owner_or_none(header: str, owner: str | None) -> None:
    assert Keys.parse(LINES, "keys").owner(header) == owner


@pytest.mark.parametrize("line", ["secret", "name:", ":secret", "na.me:secret", f"{'n' * 65}:secret"])
def test_a_line_that_is_no_key_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(InputError, match="keys, line 2: write name:key") as caught:
        Keys.parse(["fine:key", line], "keys")
    assert "secret" not in str(caught.value)


def test_a_key_after_a_blank_keeps_its_colons() -> None:
    assert Keys.parse(["search one:two:three"], "keys").owner("Bearer one:two:three") == "search"


def test_two_names_with_one_key_are_refused_without_showing_it() -> None:
    assert Keys.parse(["search:secret", "search:secret"], "keys").owner("Bearer secret") == "search"
    with pytest.raises(InputError, match="keys, line 2: index has the key of search: give each its own") as caught:
        Keys.parse(["search:secret", "index:secret"], "keys")
    assert "secret" not in str(caught.value)


def test_no_key_at_all_is_an_error() -> None:
    with pytest.raises(InputError, match="keys holds no key"):
        Keys.parse(["# none", ""], "keys")


def test_keys_are_kept_as_hashes_only() -> None:
    assert "one" not in repr(Keys.parse(LINES, "keys"))


def test_with_a_file_of_keys_only_their_owners_are_let_in(both: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n".join(LINES), "utf-8")
    with (
        gateway(both, "--api-keys-file", str(tmp_path / "keys")) as running,
        httpx.Client(base_url=running.url) as http,
    ):
        for path in ("/v1/embeddings", "/v2/rerank", "/embed", "/rerank", "/tokenize"):
            reply = http.post(path, json={"input": "text"})
            assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert http.get("/v1/models").status_code == 401
        assert http.get("/info", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert http.post("/embed", json={}).json() == {
            "error": "no valid API key: send the header Authorization: Bearer KEY",
            "error_type": "Validation",
        }
        assert "message" in http.post("/v1/rerank", json={}).json()
        # Without a key they tell; whether it is ready hangs on workers that are heard only every other second.
        for path in ("/health/live", "/metrics", "/openapi.json"):
            assert http.get(path).status_code == 200
        assert http.get("/health/ready").status_code in {200, 503}
        document = http.get("/openapi.json").json()
        assert document["paths"]["/embed"]["post"]["security"] == [{"key": []}]
        assert "security" not in document["paths"]["/health/live"]["get"]
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        for key in ("one", "two", "a:b c"):
            with openai.OpenAI(base_url=f"{running.url}/v1", api_key=key) as theirs:
                assert len(theirs.embeddings.create(**BODY).data) == 1
        with (
            openai.OpenAI(base_url=f"{running.url}/v1", api_key="three") as theirs,
            pytest.raises(openai.AuthenticationError, match="Authorization: Bearer"),
        ):
            theirs.embeddings.create(**BODY)
        assert 'headrace_gateway_refusals_total{reason="unauthorized"}' in http.get("/metrics").text


def test_keys_may_come_by_the_environment(both: str) -> None:
    with (
        gateway(both, env={"HEADRACE_API_KEYS": "search:one,index:two"}) as running,
        httpx.Client(base_url=running.url) as http,
    ):
        assert http.get("/v1/models").status_code == 401
        for key in ("one", "two"):
            assert http.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize("value", ["", ",", "key"])
def test_a_variable_without_a_key_lets_nobody_in(both: str, value: str) -> None:
    command = [sys.executable, "-m", "headrace", "gateway", "--port", "0", "--nats", both]
    environment = {**os.environ, "HEADRACE_API_KEYS": value}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert ended.returncode == 2
    assert "HEADRACE_API_KEYS" in ended.stderr


def test_without_keys_a_tenant_names_itself(http: httpx.Client) -> None:
    assert http.post("/v1/embeddings", json=BODY, headers={"X-Headrace-Tenant": "search"}).status_code == 200
    reply = http.post("/v1/embeddings", json=BODY, headers={"X-Headrace-Tenant": "no name"})
    assert reply.status_code == 400
    assert "X-Headrace-Tenant is 'no name'" in reply.json()["error"]["message"]
