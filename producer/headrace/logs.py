"""What a process says of itself: one event a line, on standard error, for people or for programs.

Knows structlog, over the standard library's logging, so that libraries speak in the same way. Does not know who logs
what: modules have `logging.getLogger(__name__)`, and give facts as `extra={…}`. Nothing here is for programs that
merely import the client: their logs are their own.
"""

import logging
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias, cast, get_args

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor

from headrace.errors import InputError
from headrace.redaction import redacted

Format: TypeAlias = Literal["auto", "console", "json"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]

_FIRST = ("timestamp", "level", "logger", "event")
# Colours, cursor movements, lines that look like ours and letters that run backwards, which somebody put into a text,
# such as the name of a field. Tracebacks alone have lines.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_OF_LINES = frozenset({"exception", "stack"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How a process logs.

    Attributes:
        format: `json` is one object a line; `console` is for people; `auto` is that on a terminal and `json` elsewhere.
        level: the least that is said.

    Raises:
        InputError: one of them is no such word.
    """

    format: Format = "auto"
    level: Level = "info"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("log-format", self.format, get_args(Format)),
            ("log-level", self.level, get_args(Level)),
        ):
            if value not in known:
                raise InputError(f"{name} is {value!r}: it must be one of {', '.join(known)}")


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever standard error is now: a progress bar puts itself before it, and has lines above it then."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override] # an attribute that changes
        """Where the next line goes."""
        return sys.stderr


def set_up(config: LogConfig) -> None:
    """Have all of this process's logs, Python's warnings among them, go to standard error. For the command line."""
    handler = StandardError()
    is_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(_console() if is_console else _json())
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.level.upper())
    logging.captureWarnings(capture=True)


def _is_news(record: logging.LogRecord) -> bool:
    """Python's TLS warns at the end of a connection that nats-py encrypted after it was open: nothing is wrong then."""
    return not (record.name == "asyncio" and str(record.msg).startswith("returning true from eof_received()"))


def as_json() -> None:
    """Say it as JSON from now on, whatever was set up: for a command all of whose lines are read by a program."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, StandardError):
            handler.setFormatter(_json())


def _json() -> logging.Formatter:
    return _formatter(_in_order, structlog.processors.JSONRenderer())


def _console() -> logging.Formatter:
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),  # https://no-color.org
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=0,
    )
    return _formatter(_printable, renderer)


def _formatter(*last: Processor) -> logging.Formatter:
    return ProcessorFormatter(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(),
            _of_record,
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.StackInfoRenderer(),
            _redact,
            *last,
        ]
    )


def _of_record(_: Any, __: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
    # RFC 3339. Python's own warnings end in a line break.
    said = event["event"].rstrip()
    return {**event, "timestamp": when.replace("+00:00", "Z"), "logger": record.name, "event": said}


def _redact(_: Any, __: str, event: EventDict) -> EventDict:
    """Last of those that add anything: no secret comes in after it."""
    return cast("EventDict", redacted(event))


def _in_order(_: Any, __: str, event: EventDict) -> EventDict:
    return {**{name: event[name] for name in _FIRST}, **event}


def _printable(_: Any, __: str, event: EventDict) -> EventDict:
    return {
        name: _shown(value, name in _OF_LINES) if isinstance(value, str) else value for name, value in event.items()
    }


def _shown(text: str, has_lines: bool) -> str:
    return _CONTROLS.sub(lambda found: found[0] if has_lines and found[0] in "\n\t" else repr(found[0])[1:-1], text)
