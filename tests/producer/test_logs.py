"""What a command logs, as those read it who collect it: lines on standard error, and nothing else there."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from headrace.errors import InputError
from headrace.logs import LogConfig

SAYS = """
import logging, sys, typer, warnings, os
from headrace import cli
from headrace.commands.telling import Telling

app = cli.build()

@app.command()
def speak() -> None:
    logger = logging.getLogger("some.library")
    logger.debug("whispered")
    logger.info("stated")
    logging.getLogger("asyncio").warning("returning true from eof_received() has no effect when using ssl")
    logger.warning("to %s", "nats://me:hunter2@host", extra={"chunk_id": "c1", "tokens": 5, "note": "\\x1b[2J"})
    try:
        raise ValueError("password=hunter2\\nin two lines")
    except ValueError:
        logger.exception("it failed")
    warnings.warn("of Python")
    print(os.environ.get("HEADRACE_LOG_FORMAT"), os.environ.get("HEADRACE_LOG_LEVEL"))

@app.command()
def tell() -> None:
    Telling(as_json=True)
    logging.getLogger("some.library").warning("also JSON")

@app.command()
def forge() -> None:
    logging.getLogger("some.library").error("no field `a\\n2026 [error] all is lost\\r\u202egnol\u2028`")

@app.command()
def crash() -> None:
    raise RuntimeError("at nats://me:hunter2@host")

cli.build = lambda: app
cli.main()
"""


def say(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_LOG")}
    return subprocess.run(
        [sys.executable, "-c", SAYS, *arguments], capture_output=True, text=True, check=False, env=kept | environment
    )


def events(said: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.stderr.splitlines()]


def test_without_a_terminal_each_event_is_one_object_with_its_facts_and_no_secret() -> None:
    said = say("speak")
    first, failed, of_python = events(said)
    assert (first["level"], first["logger"], first["event"]) == ("warning", "some.library", "to nats://[redacted]@host")
    assert (first["chunk_id"], first["tokens"], first["note"]) == ("c1", 5, "\x1b[2J")
    assert first["timestamp"].endswith("Z")
    assert abs(datetime.fromisoformat(first["timestamp"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert failed["event"] == "it failed"
    assert "ValueError: password=[redacted]\nin two lines" in failed["exception"]
    assert (of_python["logger"], of_python["event"].splitlines()[0][-22:]) == ("py.warnings", "UserWarning: of Python")
    assert "hunter2" not in said.stderr


def test_for_people_there_are_lines_to_read_and_nothing_that_moves_their_cursor() -> None:
    said = say("--log-format", "console", "--log-level", "debug", "speak")
    assert "[warning  ] to nats://[redacted]@host [some.library] chunk_id=c1 note=\\x1b[2J tokens=5" in said.stderr
    assert "whispered" in said.stderr
    assert "\x1b" not in said.stderr
    assert "hunter2" not in said.stderr


def test_a_strangers_text_is_no_line_of_its_own() -> None:
    said = say("--log-format", "console", "forge")
    (line,) = said.stderr.splitlines()
    assert r"no field `a\n2026 [error] all is lost\r\u202egnol\u2028`" in line
    (event,) = events(say("forge"))
    assert event["event"].endswith("gnol\u2028`")


def test_what_a_command_was_told_its_children_are_told_too() -> None:
    assert say("--log-format", "console", "speak").stdout == "console None\n"
    assert say("speak", HEADRACE_LOG_FORMAT="JSON", HEADRACE_LOG_LEVEL="error").stdout == "json error\n"


def test_for_a_program_that_reads_progress_logs_are_json_whatever_the_terminal() -> None:
    assert [event["event"] for event in events(say("--log-format", "console", "tell"))] == ["also JSON"]


def test_an_error_that_nobody_thought_of_is_an_event_too_and_the_exit_code_says_so() -> None:
    said = say("crash")
    (crash,) = events(said)
    assert said.returncode == 1
    assert crash["level"] == "critical"
    assert "RuntimeError: at nats://[redacted]@host" in crash["exception"]


@pytest.mark.parametrize("name", ["HEADRACE_LOG_FORMAT", "HEADRACE_LOG_LEVEL"])
def test_a_word_that_is_none_of_those_there_are_is_refused_by_name(name: str) -> None:
    said = say("speak", **{name: "loud", "COLUMNS": "200"})
    assert said.returncode == 2
    assert name in said.stderr
    assert "'loud' is not one of" in said.stderr


def test_a_config_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="log-level is 'loud': it must be one of debug, info, warning, error"):
        LogConfig(level="loud")  # type: ignore[arg-type] # wrong on purpose
