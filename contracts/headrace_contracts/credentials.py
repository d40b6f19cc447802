"""Who somebody is to nats-server: the access file.

Knows the file and what it may hold, strictly. Secrets stand in no message and in no repr. Does not know what the user
may do (access.py), nor how one connects (connection.py).
"""

import logging
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from headrace_contracts import subjects
from headrace_contracts.creds import Creds
from headrace_contracts.errors import CredentialsError, InvalidName
from headrace_contracts.nkey import check_seed
from headrace_contracts.tls import Tls

logger = logging.getLogger(__name__)

_WAYS = ("nkey", "nkey_file", "creds_file", "user", "token")
_SECRETS = frozenset({"nkey", "password", "token"})
_KEYS = {"name", "role", "password", *_WAYS, "tls"}
_TLS_KEYS = {"ca", "cert", "key", "handshake_first"}
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """One user of nats-server: exactly one of seed, creds, user and token.

    Attributes:
        name: a token; all inboxes of the user lie under hr.inbox.<name>.
        role: what it was made for, for messages; the server alone decides what it may do.
        seed: seed of an nkey.
        creds: a user JWT with its seed, read anew for each connection.
        user: user name, with `password`.
        password: of `user`.
        token: a token of the server's.
        tls: how to encrypt; None encrypts where the server asks for it, by the system's certificates.
    """

    name: str
    role: str | None = None
    seed: str | None = field(default=None, repr=False)
    creds: Creds | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an access file (TOML); paths in it are relative to it.

        Raises:
            CredentialsError: it cannot be read, or a field is wrong; the text names the field and, unless it is a
                secret, what it held.
        """
        try:
            return cls._of(_document(path), path.parent)
        except CredentialsError as error:
            raise CredentialsError(f"access file {path}: {error}") from None

    @classmethod
    def _of(cls, found: Mapping[str, Any], folder: Path) -> Self:
        _check_keys(found, _KEYS, "")
        for name in _KEYS - {"tls"}:
            _check_text(found, name)
        if "name" not in found:
            raise CredentialsError("name is missing: under hr.inbox.<name> lie the inboxes of the user")
        try:
            name = subjects.token(found["name"], "name")
        except InvalidName as error:
            raise CredentialsError(str(error)) from None
        ways = [way for way in _WAYS if way in found]
        if len(ways) != 1:
            raise CredentialsError(f"{' and '.join(ways) or 'nothing'} given: give exactly one of {', '.join(_WAYS)}")
        if ("user" in found) != ("password" in found):
            raise CredentialsError("user and password go together: give both or neither")
        creds = Creds(folder / found["creds_file"]) if "creds_file" in found else None
        if creds is not None:
            creds.check()
        return cls(
            name=name,
            role=found.get("role"),
            seed=_seed(found, folder),
            creds=creds,
            user=found.get("user"),
            password=found.get("password"),
            token=found.get("token"),
            tls=_tls(found["tls"], folder) if "tls" in found else None,
        )

    @property
    def inbox(self) -> str:
        """Prefix of all inboxes of the user."""
        return f"{subjects.INBOX_ROOT}.{self.name}"


def _document(path: Path) -> dict[str, Any]:
    return _parsed(_read(path))


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Its text may quote the line, and that line a secret: only the place is told.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise CredentialsError(f"it is no TOML ({place})") from None


def _read(path: Path) -> str:
    """What a file of secrets holds; one that everybody may read is told of.

    Raises:
        CredentialsError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CredentialsError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise CredentialsError(f"{path} has more than {_MAX_BYTES:,} bytes: that is no file of credentials")
    if mode & stat.S_IROTH:
        # No refusal: Kubernetes mounts secrets like this, in containers where there is nobody else.
        logger.warning("%s holds secrets and may be read by everybody: chmod o-r it", path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"{path} is not UTF-8") from None


def _check_keys(found: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in found:
        if name not in known:
            raise CredentialsError(f"{where}{name} is not known: there are {', '.join(sorted(known))}")


def _check_text(found: Mapping[str, Any], name: str) -> None:
    value = found.get(name, "x")
    if not isinstance(value, str) or not value:
        shown = "not a text" if name in _SECRETS else repr(value)
        raise CredentialsError(f"{name} is {'empty' if value == '' else shown}: it must be a text")


def _seed(found: Mapping[str, Any], folder: Path) -> str | None:
    if "nkey" in found:
        return check_seed(found["nkey"], "nkey")
    if "nkey_file" in found:
        path = folder / found["nkey_file"]
        return check_seed(_read(path).strip(), f"nkey_file {path}")
    return None


def _tls(found: object, folder: Path) -> Tls:
    if not isinstance(found, dict):
        raise CredentialsError(f"tls is {found!r}: it must be a table, [tls]")
    _check_keys(found, _TLS_KEYS, "tls.")
    first = found.get("handshake_first", False)
    if not isinstance(first, bool):
        raise CredentialsError(f"tls.handshake_first is {first!r}: it must be true or false")
    paths = {name: _path(found, name, folder) for name in ("ca", "cert", "key")}
    if (paths["cert"] is None) != (paths["key"] is None):
        raise CredentialsError("tls.cert and tls.key go together: give both or neither")
    tls = Tls(**paths, handshake_first=first)
    tls.context()  # finds what is wrong with the files
    return tls


def _path(found: Mapping[str, Any], name: str, folder: Path) -> Path | None:
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise CredentialsError(f"tls.{name} is {value!r}: it must be a path")
    return folder / value
