"""What became of the texts of a request that failed, by the contract's error codes.

Pure. Knows exceptions. Does not know who counts.
"""

from collections import Counter

from headrace_contracts import ErrorCode

from headrace.errors import InputError, ItemsFailed, ModelNotFound, RequestFailed
from headrace.gateway.problems import Kind, Refused

OK = "ok"


def outcomes(error: Exception, num_texts: int) -> Counter[str]:
    """How many texts had which outcome: of some that failed the others are `ok`, though their caller has an error."""
    if isinstance(error, ItemsFailed):
        counts = Counter(str(each.code) for each in error.errors.values())
        return counts + Counter({OK: num_texts - counts.total()})
    if isinstance(error, RequestFailed):
        return Counter({str(error.code): num_texts})
    if isinstance(error, Refused) and error.problem.kind == Kind.CLIENT_GONE:
        return Counter({str(ErrorCode.CANCELLED): num_texts})
    code = ErrorCode.INVALID if isinstance(error, InputError | ModelNotFound) else ErrorCode.UNAVAILABLE
    return Counter({str(code): num_texts})
