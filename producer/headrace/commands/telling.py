"""How a command that may run for days says how it goes: as text for people, or as JSON lines for what reads logs.

Knows errors and facts. Does not know bulk jobs.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NoReturn

import typer

from headrace import logs
from headrace.errors import HeadraceError, InputError


class Telling:
    """Words on standard error; standard output is left to what was asked for."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        if as_json:
            logs.as_json()  # every line is to be read by a program

    def say(self, text: str, **facts: object) -> None:
        """Say a sentence; its facts are for programs."""
        # Who went away without listening, as a closed terminal, changes nothing of what was done.
        with suppress(OSError):
            typer.echo(_line("info", text, facts) if self._as_json else text, err=True)

    def fail(self, error: HeadraceError) -> NoReturn:
        """End the process with the error and its exit code; for people this is left to the one place that does it.

        Raises:
            SystemExit: for a program.
            HeadraceError: for people.
        """
        if not self._as_json:
            raise error
        with suppress(OSError):
            typer.echo(_line("error", str(error), {"kind": type(error).__name__}), err=True)
        sys.exit(exit_code(error))


def exit_code(error: HeadraceError) -> int:
    """What a command that ends with this error ends with: 2 for wrong usage, else 1."""
    return 2 if isinstance(error, InputError) else 1


def _line(level: str, text: str, facts: Mapping[str, object]) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, "text": text, **facts})
