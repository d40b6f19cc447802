"""API keys, and whose they are.

Knows how keys are written down and compared. Does not know HTTP but the one header.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

from headrace_contracts import InvalidName, subjects

from headrace.errors import InputError

# The key begins after the first blank or colon, and may hold more of both.
_LINE = re.compile(r"([^\s:]+)\s*[\s:]\s*(.+)")


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
            InputError: a line is neither, or two names have one key; the error names the line, never the key.
        """
        hashed: dict[bytes, str] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            found = _LINE.fullmatch(text)
            if found is None or not is_tenant(found[1]):
                raise InputError(
                    f"{source}, line {number}: write name:key, the name of 1 to 64 letters, digits, _ and -"
                )
            name, key = found[1], _hash(found[2])
            if hashed.setdefault(key, name) != name:
                raise InputError(f"{source}, line {number}: {name} has the key of {hashed[key]}: give each its own")
        if not hashed:
            raise InputError(f"{source} holds no key: write lines of name:key")
        return cls(tuple((name, key) for key, name in hashed.items()))

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
