"""The trace context of a caller, which travels with each chunk of a call.

Knows the spelling: W3C Trace Context, https://www.w3.org/TR/trace-context/, section 3.2. Does not know tracing
libraries; a caller hands over what its own says.
"""

import re

from headrace.errors import InputError

_SPELLING = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_INVALID_VERSION = "ff"


def check_traceparent(value: object) -> None:
    """Refuse what no tracing system could read.

    Raises:
        InputError: it is not version-traceid-spanid-flags in lower-case hex, its version is ff, or an id is all zeros.
    """
    found = _SPELLING.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        shown = repr(value)[:80]
        example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        raise InputError(f"traceparent is {shown}: write version-traceid-spanid-flags in lower-case hex, as {example}")
    version, trace_id, span_id = found.groups()
    if version == _INVALID_VERSION:
        raise InputError(f"traceparent is {value!r}: version ff is not valid, write 00")
    for name, digits in (("trace id", trace_id), ("span id", span_id)):
        if not int(digits, 16):
            raise InputError(
                f"traceparent is {value!r}: the {name} is all zeros, leave traceparent out if there is none"
            )
