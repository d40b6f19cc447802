"""Users of a fleet: made once, changed and removed without the others noticing, and understood by nats-server."""

import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from headrace import InputError
from headrace.fleet_users import FleetUsers
from headrace.local import server_binary
from headrace_contracts.access import ROLES, Scope
from headrace_contracts.credentials import Credentials
from headrace_contracts.nkey import public_key


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


def test_of_those_who_make_users_at_the_same_time_none_undoes_another(tmp_path: Path) -> None:
    names = [f"user-{n}" for n in range(8)]
    together = threading.Barrier(len(names))

    def make(name: str) -> None:
        together.wait(20)
        with FleetUsers.changing(tmp_path) as users:
            users.add(name, "query", Scope())

    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(make, names))
    users = FleetUsers(tmp_path)
    assert sorted(users.users) == names
    for name, user in users.users.items():
        assert public_key(str(Credentials.read(users.access_file(name)).seed)) == user.nkey


@pytest.mark.parametrize("unwritten", [("users.json",), ("authorization.conf", "users.json")])
def test_what_was_interrupted_is_done_by_the_same_command_again(tmp_path: Path, unwritten: tuple[str, ...]) -> None:
    def change() -> None:
        with FleetUsers.changing(tmp_path) as users:
            users.remove("early")
            users.add("late", "query", Scope())

    with FleetUsers.changing(tmp_path) as users:
        users.add("early", "query", Scope())
    before = {name: (tmp_path / name).read_bytes() for name in unwritten}
    change()
    key = FleetUsers(tmp_path).users["late"].nkey
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    change()
    found = FleetUsers(tmp_path)
    assert {name: user.nkey for name, user in found.users.items()} == {"late": key}
    assert [line.split()[-1] for line in found.authorization.read_text().splitlines() if "nkey" in line] == [key]


def test_a_change_that_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    def change() -> None:
        with FleetUsers.changing(tmp_path) as users:
            users.add("a", "query", Scope())
            users.remove("nobody")

    with pytest.raises(InputError, match="no user 'nobody'"):
        change()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


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
