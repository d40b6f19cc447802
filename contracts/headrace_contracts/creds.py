"""A creds file of nsc: a user JWT and the seed that goes with it.

Knows its two blocks, and that it is read anew for each connection: JWTs expire, and are replaced while programs run.
nats-py's own reader never ends on a file that has no JWT. Does not check the JWT: nats-server does.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headrace_contracts.errors import CredentialsError
from headrace_contracts.nkey import sign

_BLOCK = r"-{3,}BEGIN %s-{3,}\s*([A-Za-z0-9_.=-]+)\s*-{3,}END %s-{3,}"
_JWT = re.compile(_BLOCK % ("NATS USER JWT", "NATS USER JWT"))
_SEED = re.compile(_BLOCK % ("USER NKEY SEED", "USER NKEY SEED"))
_MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Creds:
    """The file; all methods read it, and raise CredentialsError if it cannot be read or is no creds file."""

    path: Path

    def check(self) -> None:
        """See that it is one."""
        self.jwt()
        self.sign("")

    def jwt(self) -> bytes:
        """The user's JWT."""
        return self._block(_JWT, "NATS USER JWT").encode()

    def sign(self, nonce: str) -> bytes:
        """The nonce's signature, base64."""
        return sign(self._block(_SEED, "USER NKEY SEED"), nonce, f"the USER NKEY SEED of creds_file {self.path}")

    def _block(self, block: "re.Pattern[str]", name: str) -> str:
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_BYTES).decode(errors="replace")
        except OSError as error:
            raise CredentialsError(f"creds_file {self.path} cannot be read: {error.strerror}") from None
        found = block.search(text)
        if found is None:
            raise CredentialsError(f"creds_file {self.path} has no block {name}: write it anew with nsc")
        return found[1]
