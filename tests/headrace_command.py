"""The `headrace` command, in a process that was forked from one which has imported it.

To import all of the command takes ten times as long as to run it, and some hundred tests do. Where a test asks how the
process itself is started and ended, it starts one in its own way.
"""

import multiprocessing
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

# Clean: it begins with nothing of the process of the tests but what is said here.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["headrace.cli", "headrace_workers.command"])

# Not a function of this file, which whoever is forked could not import.
_COMMAND = """
import os, sys
for number, name, mode in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
    os.dup2(os.open(os.path.join(folder, name), mode), number)
sys.stdin = open(0, encoding="utf-8", closefd=False)
os.chdir(here)
os.environ.clear()
os.environ.update(environment)
sys.argv = ["headrace", *arguments]
from headrace.cli import main
main()
"""


def run(
    *arguments: str, fleet: str = "nats://127.0.0.1:1", stdin: str = "", here: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end.

    Args:
        arguments: of the command.
        fleet: URL of the nats-server.
        stdin: what it can read.
        here: the directory to run in; None is that of the tests.
    """
    environment = {**os.environ, "HEADRACE_NATS": fleet, "NO_COLOR": "1", "COLUMNS": "120"}
    with TemporaryDirectory() as folder:
        streams = {name: Path(folder, name) for name in ("in", "out", "err")}
        for name, file in streams.items():
            file.write_text(stdin if name == "in" else "", "utf-8")
        given = {"folder": folder, "arguments": arguments, "environment": environment, "here": str(here or Path.cwd())}
        process = _FORKS.Process(target=exec, args=(_COMMAND, given))
        process.start()
        process.join(60)
        assert process.exitcode is not None, f"headrace {' '.join(arguments)} does not end"
        return subprocess.CompletedProcess(
            arguments, process.exitcode, streams["out"].read_text("utf-8"), streams["err"].read_text("utf-8")
        )
