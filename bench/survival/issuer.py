"""One account of nats-server in operator mode: its settings, and JWTs of its users, as `nsc` makes them (NATS ADR-14).

It knows claims and signatures. It does not know who the users are, nor when theirs are to expire. Who comes without
any is let in with all rights: that is the harness itself, and the stranger.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import nkeys
from headrace_contracts.access import Permissions

_ALL = -1
_LIMITS = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
_OF_USERS = ("subs", "data", "payload")
_CREDS = "-----BEGIN {name}-----\n{data}\n------END {name}------\n"
_SETTINGS = """\
operator: {operator}
system_account: {system}
default_sentinel: {anybody}
resolver: MEMORY
resolver_preload: {{
{accounts}
}}
"""


class Issuer:
    """Of one account, whose users are strangers to everybody else's servers.

    Attributes:
        settings: What nats-server is told, besides where it listens and keeps things.
    """

    def __init__(self) -> None:
        """Make keys of an operator, its system account, and the account."""
        operator, self._account = _pair(nkeys.PREFIX_BYTE_OPERATOR), _pair(nkeys.PREFIX_BYTE_ACCOUNT)
        system = _id(_pair(nkeys.PREFIX_BYTE_ACCOUNT))
        limits = dict.fromkeys(_LIMITS, _ALL)
        storage = {"mem_storage": _ALL, "disk_storage": _ALL, "streams": _ALL, "consumer": _ALL, "wildcards": True}
        accounts = {
            _id(self._account): {"type": "account", "limits": {**limits, **storage}},
            system: {"type": "account", "limits": limits},
        }
        self.settings = _SETTINGS.format(
            operator=_jwt(operator, _id(operator), {"type": "operator"}),
            system=system,
            anybody=self._user(new_user(), {"bearer_token": True}),
            accounts="\n".join(f"  {each}: {_jwt(operator, each, claims)}" for each, claims in accounts.items()),
        )

    def creds(self, user: "nkeys.KeyPair", granted: Permissions, until_s: int) -> str:
        """The creds file of a user.

        Args:
            user: Its keys.
            granted: What it may do.
            until_s: Unix seconds in which servers close its connections and let it in no more.
        """
        claims = {"pub": _allowed(granted.publish), "sub": _allowed(granted.subscribe)}
        blocks = {"NATS USER JWT": self._user(user, claims, exp=until_s), "USER NKEY SEED": user.seed.decode()}
        return "\n".join(_CREDS.format(name=name, data=data) for name, data in blocks.items())

    def _user(self, user: "nkeys.KeyPair", claims: Mapping[str, Any], **more: int) -> str:
        return _jwt(self._account, _id(user), {"type": "user", **dict.fromkeys(_OF_USERS, _ALL), **claims}, **more)


def new_user() -> "nkeys.KeyPair":
    """Keys of a user."""
    return _pair(nkeys.PREFIX_BYTE_USER)


def _pair(kind: int) -> "nkeys.KeyPair":
    return nkeys.from_seed(bytearray(nkeys.encode_seed(secrets.token_bytes(32), kind)))


def _id(pair: "nkeys.KeyPair") -> str:
    return str(pair.public_key.decode())


def _allowed(subjects: Sequence[str]) -> dict[str, Any]:
    return {"allow": list(subjects)}


def _jwt(issuer: "nkeys.KeyPair", subject: str, claims: Mapping[str, Any], **more: int) -> str:
    body: dict[str, Any] = {"iat": int(time.time()), "iss": _id(issuer), "name": subject, "sub": subject}
    body |= {"nats": {"version": 2, **claims}, **more}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    parts = [_part(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    return ".".join([*parts, _part(issuer.sign(".".join(parts).encode()))])


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
