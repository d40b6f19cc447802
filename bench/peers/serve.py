"""The inside of a contender's process: commands in on stdin, times and rows out on stdout.

It knows the protocol. It does not know what it measures: an adapter beside it does; nor how the commands are done:
library.py and server.py do. It runs in the environment of each peer, so it needs Python and NumPy alone.

One JSON object a line, both ways. The first line out is {"ready": {…}} or {"failed": reason}; after that each command
is answered by one line, {"done": {…}} or {"failed": reason}. The end of stdin ends the process.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import library
import server
from adapter import Library, Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What an adapter is told.

    Attributes:
        embedder: Directory of the embedding model.
        scorer: Directory of the reranker.
        dtype: "float32" or "bfloat16"; "float16" is for Headrace alone.
        threads: That it may use to compute.
        url: Of a server that runs already; None where the adapter starts what it needs.
        work: A directory for exported models and the like, kept between runs.
    """

    embedder: Path
    scorer: Path
    dtype: str
    threads: int
    url: str | None
    work: Path

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "Flags":
        """Read the command line."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--embedder", type=Path, required=True)
        parser.add_argument("--scorer", type=Path, required=True)
        parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), required=True)
        parser.add_argument("--threads", type=int, required=True)
        parser.add_argument("--url")
        parser.add_argument("--work", type=Path, required=True)
        return cls(**vars(parser.parse_args(arguments)))


def serve(open_contender: Callable[[Flags], AbstractContextManager[Library | Server]]) -> None:
    """Run a contender until stdin ends."""
    answers = _claim_stdout()
    try:
        with open_contender(Flags.parse()) as contender:
            facts = {"versions": dict(contender.versions), "settings": dict(contender.settings)}
            _say(answers, {"ready": facts | {"url": getattr(contender, "url", None)}})
            for line in sys.stdin:
                _say(answers, _answer(contender, json.loads(line)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent must be told
        traceback.print_exc()
        _say(answers, {"failed": _text(error)})
        sys.exit(1)


def _answer(contender: Library | Server, command: Mapping[str, Any]) -> dict[str, Any]:
    try:
        done = server.run(contender, command) if isinstance(contender, Server) else library.run(contender, command)
    except Exception as error:  # noqa: BLE001 - one command that fails is no end
        traceback.print_exc()
        return {"failed": _text(error)}
    return {"done": done}


def _claim_stdout() -> IO[str]:
    """Keep stdout for answers: whatever else is printed goes to stderr, from native code too."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _say(answers: IO[str], message: Mapping[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
