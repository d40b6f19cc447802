"""Access files: what they may hold, and that no secret is ever repeated."""

import logging
from pathlib import Path

import nkeys
import pytest
from headrace_contracts import CredentialsError
from headrace_contracts.access import ROLES, Scope, permissions, roles_that_may
from headrace_contracts.credentials import Credentials
from headrace_contracts.errors import InvalidName
from headrace_contracts.nkey import public_key
from headrace_contracts.refusal import Violation

# Nobody's, and the same in each process of the tests: it is part of their names.
SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER).decode()


def written(folder: Path, text: str) -> Path:
    path = folder / "user.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'name = "a"\nnkey = "{SEED[:-1]}A"', "nkey is no seed of an nkey"),
        ('name = "a"\nnkey = "hush-hush"', "nkey is no seed of an nkey"),
        ('name = "a"\nnkey_file = "missing"', "missing cannot be read: No such file"),
        ('name = "a"\ntoken = ""', "token is empty"),
        ('name = "a"\npassword = 123456789\nuser = "u"', "password is not a text"),
        ('name = "a"\nuser = "u"', "user and password go together"),
        ('name = "a"', "nothing given: give exactly one of nkey, nkey_file, creds_file, user, token"),
        (f'name = "a"\nnkey = "{SEED}"\ntoken = "hush"', "nkey and token given: give exactly one"),
        (f'name = "a.b"\nnkey = "{SEED}"', "name 'a.b' will not do"),
        (f'nkey = "{SEED}"', "name is missing"),
        (f'name = "a"\nnkey = "{SEED}"\nseed = "x"', "seed is not known: there are creds_file"),
        (f'name = "a"\nnkey = "{SEED}\n', r"it is no TOML \(at line 2"),
        (f'name = "a"\nnkey = "{SEED}"\n[tls]\nca = "none.pem"', "tls.ca is .*none.pem: it cannot be used"),
        (f'name = "a"\nnkey = "{SEED}"\n[tls]\ncert = "c.pem"', "tls.cert and tls.key go together"),
        (f'name = "a"\nnkey = "{SEED}"\n[tls]\nhandshake_first = 1', "tls.handshake_first is 1: it must be true"),
        ('name = "a"\ncreds_file = "user.toml"', "has no block NATS USER JWT"),
    ],
)
def test_what_is_wrong_with_an_access_file_is_named_and_no_secret_is(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(CredentialsError, match=said) as caught:
        Credentials.read(path)
    assert str(path) in str(caught.value)
    for secret in (SEED[4:20], "hush", "123456789"):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None


def test_paths_are_relative_to_the_file_and_secrets_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "seed").write_text(f"{SEED}\n")
    (tmp_path / "seed").chmod(0o600)
    found = Credentials.read(written(tmp_path, 'name = "a"\nrole = "query"\nnkey_file = "seed"'))
    assert (found.name, found.role, found.seed, found.inbox) == ("a", "query", SEED, "hr.inbox.a")
    assert SEED not in repr(found)
    plain = Credentials.read(written(tmp_path, 'name = "a"\nuser = "u"\npassword = "hush"'))
    assert "hush" not in repr(plain)


def test_a_file_that_everybody_may_read_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, f'name = "a"\nnkey = "{SEED}"')
    Credentials.read(path)
    assert not caplog.records
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        Credentials.read(path)
    assert "may be read by everybody: chmod o-r it" in caplog.text


def test_a_new_seed_is_a_users_and_has_a_public_key() -> None:
    assert SEED.startswith("SU")
    assert public_key(SEED).startswith("U")
    assert len(public_key(SEED)) == 56


@pytest.mark.parametrize("role", ROLES)
def test_nobody_may_hear_all_or_what_nats_clients_use_by_default(role: str) -> None:
    granted = permissions(role, "me", Scope(models=("m",), may_provision=True))  # type: ignore[arg-type] # each of them
    assert granted.subscribe[0] == "hr.inbox.me.>"
    for subject in (*granted.publish, *granted.subscribe):
        assert subject != ">"
        assert not subject.startswith(("_INBOX", "*", "$SYS"))


def test_roles_of_a_model_need_one_and_what_is_granted_is_of_that_alone() -> None:
    with pytest.raises(InvalidName, match="role worker is for certain models"):
        permissions("worker", "w", Scope())
    granted = permissions("worker", "w", Scope(models=("m",), shards=2, queues=1))
    assert [each for each in granted.publish if "MSG.NEXT" in each] == [
        f"$JS.API.CONSUMER.MSG.NEXT.{name}.workers" for name in ("HR_ONLINE_m_0_0", "HR_ONLINE_m_1_0", "HR_BATCH_m")
    ]


@pytest.mark.parametrize(
    ("text", "action", "subject", "roles"),
    [
        ('permissions violation for publish to "hr.online.m.0.3"', "publish", "hr.online.m.0.3", ("query", "operator")),
        ("'Permissions Violation for Subscription to \"hr.cancel.m\"'", "subscribe", "hr.cancel.m", ("worker",)),
        ('permissions violation for subscription to "a.b" using queue "q"', "subscribe", "a.b", ()),
        (
            'permissions violation for publish to "$js.api.stream.purge.hr_batch_a"',
            "publish",
            None,
            ("bulk", "operator"),
        ),
    ],
)
def test_what_a_server_refuses_is_read_with_the_roles_it_takes(
    text: str, action: str, subject: str | None, roles: tuple[str, ...]
) -> None:
    found = Violation.read(text)
    assert found is not None
    assert found.action == action
    assert subject in {None, found.subject}
    assert roles_that_may(found.action, found.subject) == roles
    assert Violation.read("authorization violation") is None
