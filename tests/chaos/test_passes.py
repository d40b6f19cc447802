"""Credentials end when a plan says so, are written anew when a fault is mended, and whoever uses them goes on."""

import base64
import json
import time
from pathlib import Path

import pytest
from headrace import Client
from headrace_contracts.access import Scope
from headrace_contracts.credentials import Credentials
from survival.cluster import cluster
from survival.faults import Fault, Kind
from survival.passes import End, Passes, ends

from ..waiting import until
from .served import NAME

PLACES = ("worker-0", "worker-1", "caller-0", "producer-0")


def expiry(kind: Kind, at_s: float, lasts_s: float = 1.0, which: int = 0) -> Fault:
    return Fault(kind, at_s, lasts_s, which)


def end_of(access: Credentials) -> int:
    """Unix seconds that stand in a JWT."""
    assert access.creds is not None
    claims = access.creds.jwt().split(b".")[1]
    return int(json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))["exp"])


def made(folder: Path) -> Passes:
    return Passes(PLACES, Scope(models=(NAME,), queues=2, may_provision=True), folder)


def test_credentials_of_one_place_end_one_after_the_other_and_never_before_there_are_new_ones() -> None:
    first = expiry("credentials of a worker expire", 1.2, lasts_s=5)
    beside = expiry("credentials of a worker expire", 2, which=1)
    meanwhile = expiry("credentials of a worker expire", 3)
    other = expiry("credentials of a caller expire", 3.5)
    plan = [meanwhile, Fault("worker killed", 2.5, 1, 0), first, other, beside]
    assert ends(plan, PLACES, 1000) == {
        first: End("worker-0", 1002),
        beside: End("worker-1", 1002),
        meanwhile: End("worker-0", 1009),
        other: End("caller-0", 1004),
    }


def test_a_file_has_credentials_until_the_next_end_and_after_the_last_one_for_long(tmp_path: Path) -> None:
    passes = made(tmp_path / "access")
    caller, now_s = passes.by_name["caller-0"], int(time.time())
    assert end_of(caller.credentials) > now_s + 3600
    fault = expiry("credentials of a caller expire", 100)
    passes.follow([fault], now_s)
    assert end_of(caller.credentials) == passes.end_of(fault).at_s == now_s + 100
    assert end_of(passes.by_name["worker-0"].credentials) > now_s + 3600
    caller.end_at([now_s - 5])  # it has passed
    caller.renew()
    assert end_of(caller.credentials) > now_s + 3600
    with pytest.raises(ValueError, match="not of the plan"):
        passes.end_of(expiry("credentials of a caller expire", 7))


async def test_who_has_expired_is_let_in_again_with_new_credentials_and_who_has_none_has_all_rights(
    tmp_path: Path,
) -> None:
    passes = made(tmp_path / "access")
    with cluster(tmp_path / "nodes", size=1, users=passes.settings, say=lambda _: None) as alone:
        await alone.ready()
        passes.follow([expiry("credentials of a caller expire", 0)], time.time() + 1)
        caller = passes.by_name["caller-0"]
        async with await Client.connect(alone.url, access=caller.credentials) as client:
            await until(lambda: client.state == "reconnecting", "the credentials have ended")
            caller.renew()
            await client.wait_connected()
            assert await client.models() == []
        async with await Client.connect(alone.url) as anybody:
            assert await anybody.models() == []
