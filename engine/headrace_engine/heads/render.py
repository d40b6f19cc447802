"""A chat template (Jinja) rendered in a process of its own, with limits on its time, memory and text.

A template is code from elsewhere: it may loop without end or fill the memory, and must not do so in a worker. This
module knows how to start `render_child.py` and what its answers mean. It does not know Jinja, nor what a template is
for.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace_engine.errors import UnsupportedModel

MAX_SOURCE_CHARS = 64 << 10
_TIMEOUT_S = 10
_CHILD = Path(__file__).with_name("render_child.py")


def render(file: Path, source: str, variables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Render a template with each set of variables.

    Args:
        file: Where the template is from, for messages.
        source: The template.
        variables: What it may read, for each text; of JSON's types.

    Returns:
        The texts; an empty one where the template raises, as it does where it does not know the roles.

    Raises:
        UnsupportedModel: The template is too long, no Jinja, or takes more than a template should.
    """
    if len(source) > MAX_SOURCE_CHARS:
        raise _refuse(file, f"it is longer than {MAX_SOURCE_CHARS} characters")
    try:
        request = json.dumps({"source": source, "variables": [dict(each) for each in variables]})
    except RecursionError:
        raise _refuse(file, "what it may read is nested too deep") from None
    try:
        # By its path and isolated, so that it loads neither this package nor what lies in the working directory.
        done = subprocess.run(
            [sys.executable, "-I", str(_CHILD)],
            input=request.encode(),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _refuse(file, f"it takes more than {_TIMEOUT_S} s to render") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise _refuse(file, said or f"it takes too long to render, or too much memory: status {done.returncode}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise _refuse(file, answer["error"])
    return [text or "" for text in answer["texts"]]


def _refuse(file: Path, reason: str) -> UnsupportedModel:
    return UnsupportedModel(f"{file}: the chat template is not supported ({reason}): use a checkpoint with another")
