"""API keys, and whose they are.

Knows how keys are written down and compared. Does not know HTTP but the one header.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from headrace_contracts import InvalidName, subjects

from headrace.errors import InputError


def is_tenant(name: str) -> bool:
    """Whether it can name a tenant: 1 to 64 letters, digits, `_` and `-`."""
    try:
        subjects.token(name, "tenant")
    except InvalidName:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that are let in; only their hashes are kept.

    Attributes:
        hashed: name and SHA-256 of each key. A name may have several, so that keys can be changed without a gap.
    """

    hashed: tuple[tuple[str, bytes], ...]

    @classmethod
    def parse(cls, lines: Iterable[str], source: str) -> "Keys":
        """Read lines of `name:key` or `name key`; blank ones and those that begin with # are skipped.

        Raises:
            InputError: a line is neither; the error names the line, never the key.
        """
        hashed = []
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, _, key = text.replace(":", " ", 1).partition(" ")
            if not (is_tenant(name) and (key := key.strip())):
                raise InputError(
                    f"{source}, line {number}: write name:key, the name of 1 to 64 letters, digits, _ and -"
                )
            hashed.append((name, _hash(key)))
        if not hashed:
            raise InputError(f"{source} holds no key: write lines of name:key")
        return cls(tuple(hashed))

    def owner(self, authorization: str) -> str | None:
        """Whose key an Authorization header carries, `Bearer KEY`; None if nobody's.

        All are compared, each in constant time, so that the time tells nothing of them.
        """
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = _hash(key.strip())
        found = None
        for name, known in self.hashed:
            if hmac.compare_digest(digest, known):
                found = name
        return found


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
