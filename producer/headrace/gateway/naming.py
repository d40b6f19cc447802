"""The fields that a request has for the client's arguments, in what the client says of these.

Knows how errors of the client name an argument. Does not know the APIs: handlers say which of their fields have other
names.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import InputError, ItemsFailed
from headrace.gateway.problems import Problem, Refused, problem_of

# As in: dim is 0, token_ids[3] holds 99999, 1 text has no vector; the first is texts[2].
_ARGUMENT = re.compile(r"(?:^|the first is )(\w+)(?=\[|: | is | has | holds | mixes )")


@contextmanager
def naming(**fields: str) -> Iterator[None]:
    """Let errors of the client name the fields of the request.

    Args:
        fields: the field, by argument of the client; others have the same name.

    Raises:
        Refused: instead of an InputError or ItemsFailed that names an argument.
    """
    try:
        yield
    except (InputError, ItemsFailed) as error:
        problem = problem_of(error)
        found = _ARGUMENT.search(problem.text)
        if found is None:
            raise
        field = fields.get(found[1], found[1])
        text = problem.text[: found.start(1)] + field + problem.text[found.end(1) :]
        raise Refused.of(Problem(problem.kind, text, field, problem.retry_after_s)) from error
