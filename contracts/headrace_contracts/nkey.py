"""Seeds of nkeys, the keys by which users of nats-server sign in.

Knows their spelling: base32 of a prefix, 32 bytes and a checksum. Says nothing of a seed, whatever is wrong with it.
The library comes in late: whoever has no seed needs no PyNaCl.
"""

import base64
import secrets
from typing import Any

from headrace_contracts.errors import CredentialsError


def new_seed() -> str:
    """A new one, of a user."""
    import nkeys  # noqa: PLC0415 - see above

    return str(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode())


def check_seed(seed: str, what: str) -> str:
    """The seed of a user, if it is one; `what` names it in the error.

    Raises:
        CredentialsError: it is none.
    """
    if public_key(seed, what)[:1] != "U":
        raise CredentialsError(f"{what} is the seed of another kind of nkey: that of a user begins with SU")
    return seed


def public_key(seed: str, what: str = "nkey") -> str:
    """What nats-server is told of it.

    Raises:
        CredentialsError: it is no seed.
    """
    return str(_pair(seed, what).public_key.decode())


def sign(seed: str, nonce: str, what: str = "nkey") -> bytes:
    """The nonce's signature, base64.

    Raises:
        CredentialsError: it is no seed.
    """
    return base64.b64encode(_pair(seed, what).sign(nonce.encode()))


def _pair(seed: str, what: str) -> Any:
    import nkeys  # noqa: PLC0415 - see above

    try:
        prefix, raw = nkeys.decode_seed(seed.encode())
        # The library does not look at the checksum, by which a slip of the pen shows.
        is_good = nkeys.encode_seed(raw, prefix).decode() == seed
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except Exception:  # noqa: BLE001 - binascii's, ValueError, its own: whatever it is, it may quote the seed
        is_good, pair = False, None
    if not is_good:
        raise CredentialsError(f"{what} is no seed of an nkey: that has 58 letters and digits and begins with SU")
    return pair
