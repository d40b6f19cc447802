"""The list of Debian packages, and what is said of those that are missing."""

import subprocess
import sys
from pathlib import Path

from . import packages

ROOT = Path(__file__).parents[2]
SCRIPT = Path(packages.__file__)


def test_whoever_misses_packages_is_told_which_and_nothing_is_installed(tmp_path: Path) -> None:
    copy = tmp_path / SCRIPT.name
    copy.write_text(SCRIPT.read_text("utf-8"), "utf-8")
    copy.with_name("packages.txt").write_text("# a comment\nmill-race no-such-program\ncoreutils cat\n", "utf-8")
    ended = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "missing: mill-race;" in ended.stderr


def test_no_other_file_lists_them() -> None:
    for file in (ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "CONTRIBUTING.md"):
        assert "debootstrap" not in file.read_text("utf-8"), file
