"""The users of one fleet, as a folder keeps them: who there is, and what nats-server is told of them.

Knows three kinds of files: users.json (no secrets; the record that the rest is made of), authorization.conf (for
nats-server) and one access file a user, which holds its secret and is written once. Does not know what a role may do.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from headrace_contracts import CredentialsError, InvalidName, subjects
from headrace_contracts.access import ROLES, Role, Scope, permissions
from headrace_contracts.credentials import Credentials
from headrace_contracts.nkey import new_seed, public_key

from headrace.bulk.file_lock import locked
from headrace.errors import InputError

_RECORD = "users.json"
_AUTHORIZATION = "authorization.conf"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One of them.

    Attributes:
        name: a token.
        role: what it may do,
        scope: and for which models.
        nkey: its public key.
    """

    name: str
    role: Role
    scope: Scope
    nkey: str

    @classmethod
    def of(cls, found: dict[str, Any]) -> Self:
        """As it stands in the record."""
        scope = Scope(**{**found["scope"], "models": tuple(found["scope"]["models"])})
        return cls(name=found["name"], role=found["role"], scope=scope, nkey=found["nkey"])

    def block(self) -> str:
        """What nats-server is told."""
        granted = permissions(self.role, self.name, self.scope)
        lines = [f"    # {self.name}: {self.role}", "    {", f"      nkey: {self.nkey}", "      permissions: {"]
        for action in ("publish", "subscribe"):
            lines += [f"        {action}: ["]
            lines += [f"          {json.dumps(each)}" for each in getattr(granted, action)]
            lines += ["        ]"]
        return "\n".join([*lines, "      }", "    }"])


class FleetUsers:
    """A folder of them. Take them from `changing` to change them, so that of two who do neither undoes the other.

    Attributes:
        folder: which.
        users: by name.
    """

    def __init__(self, folder: Path) -> None:
        """Read what is there.

        Raises:
            InputError: the record cannot be read.
        """
        self.folder = folder
        # Of new users: the secret, and their access file.
        self._made: dict[str, tuple[str, str]] = {}
        self._gone: set[str] = set()
        path = folder / _RECORD
        try:
            found = json.loads(path.read_bytes()) if path.exists() else []
            self.users = {each["name"]: User.of(each) for each in found}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} cannot be read ({error!r}): it is written by headrace access alone") from error

    @classmethod
    @contextmanager
    def changing(cls, folder: Path) -> "Iterator[Self]":
        """Those of a folder, for one process at a time; what was changed is saved at the end, unless it raises.

        Raises:
            HeadraceError: the folder cannot be read or written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be made: {error.strerror}") from error
        with locked(folder / _LOCK):
            found = cls(folder)
            yield found
            found.save()

    @property
    def authorization(self) -> Path:
        """The file for nats-server."""
        return self.folder / _AUTHORIZATION

    def access_file(self, name: str) -> Path:
        """A user's access file."""
        return self.folder / f"{name}.toml"

    def add(self, name: str, role: str, scope: Scope, ca: Path | None = None) -> bool:
        """Make a user, or give one that is there another role or scope; its access file and key stay.

        Args:
            name: of the user.
            role: which.
            scope: of the role.
            ca: certificates that a server's must be signed by, for the access file.

        Returns:
            Whether it is new.

        Raises:
            InputError: name, role or scope will not do, or the access file that is there cannot be used.
        """
        known = checked(name, role, scope)
        path = self.access_file(name)
        is_new = not path.exists() or name in self._gone
        try:
            seed = self._made[name][0] if name in self._made else new_seed() if is_new else Credentials.read(path).seed
        except CredentialsError as error:
            raise InputError(str(error)) from error
        if seed is None:
            raise InputError(f"{path} has no nkey: move it away to have user {name!r} made anew")
        self.users[name] = User(name=name, role=known, scope=scope, nkey=public_key(seed))
        if is_new:
            self._made[name] = seed, _access_text(name, role, seed, ca)
        self._gone.discard(name)
        return is_new

    def remove(self, name: str) -> None:
        """Forget a user; its access file is removed, too.

        Raises:
            InputError: there is none.
        """
        if self.users.pop(name, None) is None:
            raise InputError(
                f"there is no user {name!r} in {self.folder}: there are {', '.join(sorted(self.users)) or 'none'}"
            )
        self._made.pop(name, None)
        self._gone.add(name)

    def save(self) -> None:
        """Write the access files, what nats-server is told, and the record, in this order.

        Wherever it is interrupted, the same command does the rest: until the record says so, nothing has changed.

        Raises:
            InputError: one of them cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, (_, text) in self._made.items():
            _write(self.access_file(name), text, 0o600)
        _write(self.authorization, authorization(self._sorted()), 0o644)
        users = [asdict(user) for user in self._sorted()]
        _write(self.folder / _RECORD, json.dumps(users, indent=2) + "\n", 0o644)
        for name in self._gone:
            self.access_file(name).unlink(missing_ok=True)
        self._made.clear()
        self._gone.clear()

    def _sorted(self) -> list[User]:
        return [self.users[name] for name in sorted(self.users)]


def checked(name: str, role: str, scope: Scope) -> Role:
    """The role, if a user of that name and scope may have it.

    Raises:
        InputError: name, role or scope will not do.
    """
    known = next((each for each in ROLES if each == role), None)
    if known is None:
        raise InputError(f"role {role!r} of user {name!r} is none: there are {', '.join(ROLES)}")
    try:
        permissions(known, subjects.token(name, "user"), scope)
    except InvalidName as error:
        raise InputError(str(error)) from error
    return known


def authorization(users: Iterable[User]) -> str:
    """The block of nats-server's configuration; it holds public keys and no secret."""
    head = (
        "# Written by headrace access: do not edit. Include it in nats-server's configuration; reload after a change.\n"
    )
    blocks = "\n".join(user.block() for user in users)
    return f"{head}authorization {{\n  users: [\n{blocks}\n  ]\n}}\n"


def _access_text(name: str, role: str, seed: str, ca: Path | None) -> str:
    tls = "" if ca is None else f"\n[tls]\nca = {json.dumps(str(ca.absolute()), ensure_ascii=False)}\n"
    return f'# Whoever has this file is user {name}.\nname = "{name}"\nrole = "{role}"\nnkey = "{seed}"\n{tls}'


def _write(path: Path, text: str, mode: int) -> None:
    """All of it or nothing; a secret is never there with a wider mode, not for a moment."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
