"""The program that nursery.py starts: for each directory that it is told, a process that loads it under limits.

It knows the engine, and what a worker would publish of a model. It reads a JSON string a line, and answers with a line.
"""

import contextlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# As a program beside the others of its folder, not of a package.
sys.path[0] = str(Path(__file__).parents[1])

import numpy as np  # noqa: E402 - the path comes first
import torch  # noqa: E402 - the path comes first
from headrace_contracts import decode_spec, encode_spec  # noqa: E402 - the path comes first
from headrace_engine import Engine, EngineConfig, pack  # noqa: E402 - the path comes first
from headrace_engine.errors import CheckpointError  # noqa: E402 - the path comes first
from headrace_workers.config import WorkerConfig  # noqa: E402 - the path comes first
from headrace_workers.spec import describe  # noqa: E402 - the path comes first

from fuzz import directory  # noqa: E402 - the path comes first
from fuzz.memory import limit, peak_mib  # noqa: E402 - the path comes first

_MORE_MIB = 1024
_CPU_S, _WALL_S = 20, 40
_MAX_PAYLOAD = 1 << 20


def load(folder: str) -> dict[str, Any]:
    """Load and run, and publish to nobody."""
    try:
        engine = Engine.load(Path(folder), EngineConfig(dtype="float32", device="cpu", threads=1))
    except CheckpointError as error:
        text = str(error)
        text.encode()  # it is printed and logged
        return {"kind": "refused", "text": text}
    checkpoint = engine.checkpoint
    length = min(2, checkpoint.max_length)
    engine.step(pack([np.zeros(length, np.uint32)])).numpy()
    spec = describe(checkpoint, WorkerConfig(name="m"), compute_dtype="float32", max_payload=_MAX_PAYLOAD)
    decode_spec(encode_spec(spec))
    return {"kind": "loaded", "text": checkpoint.family}


def born(folder: str, out: int) -> None:
    """The life of one process."""
    before = peak_mib()
    limit(_MORE_MIB)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    with contextlib.suppress(OSError):
        # What it was born with does not count.
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident_mib("VmRSS")
    try:
        said = load(folder)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exceptions, and all is to be told
        import traceback  # noqa: PLC0415

        said = {"kind": f"raised {type(error).__name__}", "text": "".join(traceback.format_exception(error))[-3000:]}
    said["grown_mib"] = max(0.0, _resident_mib("VmHWM") - before)
    os.write(out, json.dumps(said).encode())


def _resident_mib(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return peak_mib()


def answer(folder: str) -> Mapping[str, Any]:
    """Bear one process, and say what became of it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            born(folder, writer)
        finally:
            os._exit(0)
    os.close(writer)
    # It closes its end by ending, whatever ends it.
    said = bytearray()
    while select.select([reader], [], [], _WALL_S)[0]:
        part = os.read(reader, 65536)
        if not part:
            break
        said += part
    else:
        os.kill(pid, signal.SIGKILL)
        os.close(reader)
        os.waitpid(pid, 0)
        return {"kind": "hangs", "text": f"nothing came of it within {_WALL_S} s", "grown_mib": 0}
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"kind": f"killed by {signal.Signals(os.WTERMSIG(status)).name}", "text": "", "grown_mib": 0}
    found: dict[str, Any] = json.loads(said or b'{"kind": "silent", "text": "", "grown_mib": 0}')
    return found


def warm() -> None:
    """Load one that is sound: what is loaded with the first model must not count for the next."""
    from fuzz.checkpoints import sound  # noqa: PLC0415 - it imports nursery.py, which starts this

    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as folder:
        directory.write(Path(folder), sound())
        load(folder)


def main() -> None:
    """Answer until stdin ends."""
    torch.set_num_threads(1)
    warm()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
