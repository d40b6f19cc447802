"""Prints what the package and some of its extras need, a requirement a line, without the package itself.

An image has these in layers of their own, which a change of our code leaves as they are. Knows pyproject.toml, and that
an extra may name others of ours. Runs in a stage of ops/Dockerfile, before anything is installed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OWN = re.compile(r"headrace\[([\w,-]+)\]")


def needs(project: dict[str, Any], extras: tuple[str, ...]) -> list[str]:
    """Requirements of the package with these extras, each once, in order.

    Raises:
        KeyError: There is no such extra.
    """

    def of(requirements: list[str]) -> Iterator[str]:
        for requirement in requirements:
            if own := _OWN.fullmatch(requirement):
                for extra in own[1].split(","):
                    yield from of(project["optional-dependencies"][extra])
            else:
                yield requirement

    return list(dict.fromkeys(of([*project["dependencies"], *(f"headrace[{extra}]" for extra in extras)])))


if __name__ == "__main__":
    found = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    sys.stdout.write("\n".join((*needs(found, tuple(sys.argv[1:])), "")))
