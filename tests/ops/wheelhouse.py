"""The packages of the images, as files that a build can install without an index.

Knows pip, and that this machine's own settings of pip say where packages come from: a build gets files and none of
these settings. What was fetched once is kept.
"""

import functools
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]


def fetch(folder: Path, extras: tuple[str, ...]) -> None:
    """Put into a folder what the package needs with these extras, and what building it needs."""
    needs = subprocess.run(
        [sys.executable, str(ROOT / "ops" / "image" / "needs.py"), *extras],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    building = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    wanted = folder / "wanted.txt"
    text = "\n".join((*needs, *building, (ROOT / "requirements.lock").read_text("utf-8")))
    if wanted.exists() and wanted.read_text("utf-8") == text:
        return
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *filter(None, needs), *building],
        env={**os.environ, "PIP_CONSTRAINT": str(ROOT / "requirements.lock")},
        check=True,
    )
    wanted.write_text(text, "utf-8")


def write_empty(folder: Path, requirements: Iterable[str]) -> None:
    """Wheels with nothing in them, of these names and versions, written as name==version."""
    for requirement in requirements:
        name, _, version = requirement.partition("==")
        stem = f"{name.replace('-', '_')}-{version}"
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        with ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", told)
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gave it
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """URL on loopback of a page of links to the files in a folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
