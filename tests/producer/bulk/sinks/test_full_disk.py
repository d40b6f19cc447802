"""A sink whose disk is full says so, and once there is room all is written as if nothing had been."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from headrace.bulk.sinks.open_sink import open_sink
from headrace.errors import SinkError

from ..parts import CARD, assert_holds, part

SCRIPT = "tests.producer.bulk.sinks.full_disk"
ROOT = Path(__file__).parents[4]
MOUNT = 'mount -t tmpfs -o size=4m tmpfs "$1" && exec "$2" -m "$3" "$1" "$4"'
# A file system of its own, which is gone with the process.
APART = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]


def may_mount(folder: Path) -> bool:
    try:
        return (
            subprocess.run([*APART, folder, sys.executable, "this", ""], capture_output=True, check=False).returncode
            == 0
        )
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("spelling", ["parquet:s", "numpy:s", "lance:s#t"])
def test_a_full_disk_is_told_and_costs_nothing_once_there_is_room(tmp_path: Path, spelling: str) -> None:
    if not may_mount(tmp_path):
        pytest.skip("needs unshare(1), and a kernel that lets it mount")
    done = subprocess.run(
        [*APART, tmp_path, sys.executable, SCRIPT, spelling], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["parquet", "numpy"])
def test_a_file_that_may_not_grow_is_told_and_the_one_before_stays(tmp_path: Path, kind: str) -> None:
    sink = open_sink(f"{kind}:{tmp_path / 's'}")
    sink.open(CARD, replace=False)
    small, large = part(range(10)), part(range(5000))
    sink.write(small)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(SinkError, match=r"part-00000-000000\..*File too large \(EFBIG\): make room"):
            sink.write(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_holds(sink, small)
    assert not list(tmp_path.rglob("*.unfinished"))
    sink.write(large)
    assert_holds(sink, large)
