"""A stand-in for the official image of Python, where no registry can be reached.

Knows debootstrap, and in which points the official image is unlike a fresh Debian: Python is in /usr/local/bin, and apt
keeps no files. Does not know what is built upon it.
"""

import subprocess
import tempfile
from pathlib import Path

from .docker import Docker, found

NAME = "python:3.11-slim-bookworm"
_INCLUDED = "ca-certificates,python3,python3-venv"
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_APT = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"""


def make(kept: Path) -> None:
    """Write the image's files to an archive, unless it is there already."""
    if kept.exists():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-base-") as name:
        root = Path(name) / "root"
        subprocess.run(
            [found("debootstrap"), "--variant=minbase", f"--include={_INCLUDED}", "bookworm", str(root)],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        (root / "usr/local/bin/python3").symlink_to("/usr/bin/python3")
        (root / "usr/local/bin/python").symlink_to("python3")
        (root / "etc/apt/apt.conf.d/docker-clean").write_text(_APT, "utf-8")
        for path in (*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")):
            path.unlink()
        part = kept.with_suffix(".part")
        subprocess.run(["tar", "--directory", str(root), "--create", "--file", str(part), "."], check=True)  # noqa: S607
        part.rename(kept)


def load(docker: Docker, kept: Path) -> None:
    """Have the image in a daemon, under the official name."""
    docker("import", "--change", f"ENV PATH={_PATH}", "--change", 'CMD ["python3"]', str(kept), NAME)
