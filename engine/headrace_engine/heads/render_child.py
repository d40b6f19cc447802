"""The program that renders a chat template: a process of its own, which may run away without harm.

It reads {"source": …, "variables": […]} from its standard input, and writes {"texts": […]}, one for each set of
variables, or {"error": …}. It knows Jinja and its own limits. It knows nothing of the engine, and imports nothing of
it: a template is code from elsewhere, and whoever starts this file by its path need not load torch.
"""

import contextlib
import json
import sys
from typing import Any

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_CPU_S = 2
MAX_MEMORY_BYTES = 512 << 20  # of addresses; Python and Jinja take a tenth
MAX_TEXT_BYTES = 256 << 10


def limit_resources() -> None:
    """Have the system end this process when it takes too much, where the system can."""
    try:
        import resource  # noqa: PLC0415 - not on Windows, where the parent's timeout remains
    except ImportError:
        return
    limits = (
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A system may refuse a limit that it does not keep; the timeout of the parent remains.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bound, bound))


def render(source: str, variables: list[dict[str, Any]]) -> list[str | None]:
    """Render a template with each set of variables; None where it raises, as it does where it does not know the roles.

    Raises:
        Exception: The template is no Jinja, or runs out of memory or stack, or a text is too long or no Unicode.
    """
    # The blanks around blocks go as in transformers (utils/chat_template_utils.py). In this sandbox a template reaches
    # no Python object but its variables.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    template = environment.from_string(source)
    texts: list[str | None] = []
    for each in variables:
        try:
            text = template.render(each)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # noqa: BLE001 - a template can raise anything
            texts.append(None)
            continue
        if len(text.encode()) > MAX_TEXT_BYTES:
            message = f"it makes more than {MAX_TEXT_BYTES} bytes of text"
            raise ValueError(message)
        texts.append(text)
    return texts


def main() -> None:
    """Answer the one request."""
    limit_resources()
    answer: dict[str, Any]
    try:
        request = json.load(sys.stdin)
        answer = {"texts": render(request["source"], request["variables"])}
    except Exception as error:  # noqa: BLE001 - as above, and Jinja's compiler passes on Python's
        reason = str(error)[:200].partition("\n")[0]
        answer = {"error": f"{type(error).__name__}: {reason}".removesuffix(": ")}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
