"""Users of a fleet: made once, changed and removed without the others noticing, and understood by nats-server."""

import stat
import subprocess
from pathlib import Path

import pytest
from headrace import InputError
from headrace.fleet_users import FleetUsers
from headrace.local import server_binary
from headrace_contracts.access import ROLES, Scope
from headrace_contracts.credentials import Credentials


def test_users_that_are_there_keep_their_keys_when_others_come_and_go(tmp_path: Path) -> None:
    first = FleetUsers(tmp_path)
    for role in ROLES:
        assert first.add(role, role, Scope(models=("m",)))
    first.save()
    before = {name: user.nkey for name, user in first.users.items()}
    second = FleetUsers(tmp_path)
    assert second.add("late", "query", Scope())
    assert not second.add("worker", "worker", Scope(models=("m", "n"), shards=3))
    second.remove("monitor")
    second.save()
    third = FleetUsers(tmp_path)
    assert {name: user.nkey for name, user in third.users.items() if name != "late"} == {
        name: key for name, key in before.items() if name != "monitor"
    }
    assert third.users["worker"].scope == Scope(models=("m", "n"), shards=3)
    assert not third.access_file("monitor").exists()


def test_what_nats_server_is_told_is_valid_and_holds_no_secret(tmp_path: Path) -> None:
    users = FleetUsers(tmp_path)
    for role in ROLES:
        users.add(role, role, Scope(models=("m",), may_provision=True))
    users.save()
    subprocess.run([server_binary(), "-t", "-c", str(users.authorization)], check=True, capture_output=True)
    for path in (users.authorization, tmp_path / "users.json"):
        for role in ROLES:
            assert str(Credentials.read(users.access_file(role)).seed) not in path.read_text()
    assert {stat.S_IMODE(users.access_file(role).stat().st_mode) for role in ROLES} == {0o600}


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        ("a", "root", "role 'root' of user 'a' is none: there are query, bulk, worker, operator, monitor"),
        ("a.b", "query", "user 'a.b' will not do"),
        ("gpu", "worker", "role worker is for certain models"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, role: str, said: str
) -> None:
    users = FleetUsers(tmp_path / "new")
    with pytest.raises(InputError, match=said):
        users.add(name, role, Scope())
    assert not (tmp_path / "new").exists()


def test_who_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no user 'nobody'"):
        FleetUsers(tmp_path).remove("nobody")
