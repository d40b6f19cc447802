"""Takes secrets out of what is logged.

Pure. Knows what credentials look like: in URLs, as NATS seeds and creds files, as tokens of the web, and by the names
that they go by. Does not know logging.
"""

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

HIDDEN = "[redacted]"

# A mapping's key, or a word before = or :, whose value nobody should read.
_NAMES = (
    r"password|passwd|pwd|passphrase|secret|(?:api|access|private)[-_]?keys?|auth[-_]?token|authorization|credentials"
    r"|seed|jwt"
)
_NAMED = re.compile(rf"(?:.*[-_])?(?:{_NAMES}|token)", re.IGNORECASE)
# A text may be long and a stranger's. What repeats in a pattern begins only where it cannot have begun before: or else
# some kilobytes of "a-a-a-" would keep this process busy for minutes.
_SECRETS = re.compile(
    "|".join(
        (
            # A key or creds file: all of it (NATS: ADR-25 has "BEGIN NATS USER JWT" and "BEGIN USER NKEY SEED").
            r"(?<!-)-{3,}BEGIN [A-Z ]*(?:KEY|SEED|JWT)-{3}.*?(?:---END [A-Z ]*-{3,}|\Z)",
            # RFC 3986, userinfo: up to the last @ before the path, for passwords that hold one unescaped.
            r"""(?<=://)[^\s/'"<>]+(?=@)""",
            # An nkey seed: S, its kind, and 32 bytes with a checksum in base32 (github.com/nats-io/nkeys).
            r"(?<![A-Z0-9])S[UAONCX][A-Z2-7]{30,}",
            # A JSON web token: the base64 of '{"' is how each begins (RFC 7519).
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}",
            # The header of RFC 9110, by its schemes.
            r"(?i:(?<=\bbearer )|(?<=\bbasic ))[A-Za-z0-9._~+/=-]{4,}",
            # Keys of well-known services, by what they begin with.
            r"(?<![A-Za-z0-9])(?:sk|hf|ghp|xoxb)[-_][A-Za-z0-9_-]{16,}",
            # name=value and name: value, also as the repr of a mapping has them.
            (
                rf"""(?i:(?P<name>(?<![a-z0-9_-])[-_]*(?:[a-z0-9]+[-_]+)*"""
                rf"""(?:(?:{_NAMES})["']?\s*[=:]|token["']?=)\s*(?:b?["'])?(?:(?:token|digest|apikey)\s+)?))"""
                r"""(?!(?i:bearer|basic) |\[redacted)[^\s"',;&)}\]]+"""
            ),
        )
    ),
    re.DOTALL,
)


def redact(text: str) -> str:
    """The text, with `[redacted]` where it holds a secret."""
    return _SECRETS.sub(lambda found: (found["name"] or "") + HIDDEN, text)


def redacted(value: object) -> object:
    """Any value without its secrets, as what JSON has: numbers, booleans, None, text, lists and objects of these."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)  # JSON has no word for the others
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(key)): _of_key(str(key), each) for key, each in value.items()}
        case list() | tuple() | AbstractSet():
            return [redacted(each) for each in value]
        case _:
            return redact(str(value))


def _of_key(key: str, value: object) -> object:
    is_secret = value not in (None, "") and _NAMED.fullmatch(key) is not None
    return HIDDEN if is_secret else redacted(value)
