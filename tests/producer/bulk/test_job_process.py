"""Whether the owner of a shard is still there, as far as its own machine can tell."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from headrace.bulk.jobs.process import is_gone, this_process
from headrace.bulk.jobs.record import Owner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a /proc")

_SAY = """
import json, sys
from dataclasses import asdict
from headrace.bulk.jobs.process import this_process
print(json.dumps(asdict(this_process())), flush=True)
sys.stdin.read()
"""


def test_this_process_is_there_and_no_two_owners_are_the_same() -> None:
    assert not is_gone(this_process())
    assert this_process().process != this_process().process


def test_a_process_is_there_until_it_is_killed_even_before_its_parent_has_noticed() -> None:
    command = [sys.executable, "-c", _SAY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        owner = Owner(**json.loads(child.stdout.readline()))
        assert not is_gone(owner)
        child.send_signal(signal.SIGSTOP)
        assert not is_gone(owner)
        child.kill()
        # It ends; that its parent reaps it comes later, and is not waited for here.
        while not is_gone(owner):
            assert child.returncode is None
    assert is_gone(owner)


def test_a_later_process_of_the_same_number_is_not_the_owner() -> None:
    me = this_process()
    assert me.started is not None
    assert is_gone(replace(me, started=me.started - 1))


@pytest.mark.parametrize("unknown", [{"system": None}, {"started": None}, {"system": "another machine"}])
def test_of_a_process_elsewhere_nothing_is_known(unknown: dict[str, str | None]) -> None:
    assert not is_gone(replace(this_process(), pid=2**22 - 1, **unknown))  # type: ignore[arg-type] # either field's type
