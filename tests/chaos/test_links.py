"""Places are apart, links between them break as they are told to, and nothing is left of either."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from survival.links import Links
from survival.place import NotPermitted, Place, places

from ..waiting import until
from .datagrams import heard

A, B, C = "a", "b", "c"
NUM = 500


@pytest.fixture(scope="module")
def three() -> Iterator[Mapping[str, Place]]:
    try:
        with places([A, B, C]) as made:
            yield made
    except NotPermitted as error:
        pytest.skip(str(error))


@pytest.fixture
def links(three: Mapping[str, Place]) -> Iterator[Links]:
    links = Links(three)
    yield links
    links.mend()


def reaching(three: Mapping[str, Place]) -> set[str]:
    """Who hears from whom."""
    pairs = [(one, other) for one in three for other in three if one != other]
    return {f"{one}{other}" for one, other in pairs if heard(three[one], three[other])}


def leads_there(address: str) -> bool:
    """Whether this machine has the interface to a place. Other tests may make and remove theirs at any moment."""
    second, third = map(int, address.split(".")[1:3])
    return f"headrace-{256 * (second - 18) + third}" in {name for _, name in socket.if_nameindex()}


ALL = {"ab", "ba", "ac", "ca", "bc", "cb"}


def test_places_reach_each_other_and_have_each_a_loopback_of_its_own(three: Mapping[str, Place]) -> None:
    assert reaching(three) == ALL
    with socket.create_server(("127.0.0.1", 0)) as here:
        code = f"import socket; socket.create_connection(('127.0.0.1', {here.getsockname()[1]}))"
        ended = subprocess.run(
            three[A].command(sys.executable, "-c", code), capture_output=True, text=True, check=False
        )
    assert "ConnectionRefusedError" in ended.stderr


def test_a_command_in_a_place_is_the_process_itself(three: Mapping[str, Place]) -> None:
    with subprocess.Popen(three[A].command("cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("are you there\n")
        process.stdin.flush()
        assert process.stdout.readline() == "are you there\n"
        assert Path(f"/proc/{process.pid}/comm").read_text() == "cat\n"


def test_what_is_cut_is_cut_both_ways_and_the_rest_is_whole(three: Mapping[str, Place], links: Links) -> None:
    links.cut(A, B)
    links.cut(A, B)
    assert reaching(three) == ALL - {"ab", "ba"}


def test_what_is_cut_one_way_is_heard_the_other_way(three: Mapping[str, Place], links: Links) -> None:
    links.cut_one_way(A, B)
    assert reaching(three) == ALL - {"ab"}


def test_who_is_isolated_reaches_nobody_but_who_drives_the_run(three: Mapping[str, Place], links: Links) -> None:
    links.isolate(C)
    assert reaching(three) == {"ab", "ba"}
    assert heard(Place("driver"), three[C])
    links.mend()
    assert reaching(three) == ALL


def test_what_is_mended_of_one_place_stays_broken_of_the_others(three: Mapping[str, Place], links: Links) -> None:
    links.cut(A, B)
    links.cut(B, C)
    links.mend(A)
    assert reaching(three) == ALL - {"bc", "cb"}


def test_a_lossy_link_loses_its_share_both_ways_beside_what_is_cut(three: Mapping[str, Place], links: Links) -> None:
    links.cut(B, C)
    links.lossy(A, 30)
    for from_, to in ((A, B), (C, A)):
        # Ten standard deviations of what is to be expected.
        assert 0.5 * NUM < heard(three[from_], three[to], NUM) < 0.9 * NUM
    assert not heard(three[B], three[C], NUM)
    links.lossy(A, 0)
    assert heard(three[A], three[B], NUM) == NUM


def test_a_slow_link_passes_no_more_than_its_rate_until_it_is_mended(three: Mapping[str, Place], links: Links) -> None:
    links.slow(A, 200)
    # 500 kB at 25 kB a second: what does not fit into a second of waiting is lost.
    assert 0 < heard(three[A], three[B], NUM, size=1000) < 100
    assert heard(three[B], three[A], NUM) == NUM, "it only sends slowly"
    links.mend()
    assert heard(three[A], three[B], NUM) == NUM


def test_a_name_of_nobody_and_a_share_that_is_none_are_refused_before_anything_is_done(
    three: Mapping[str, Place], links: Links
) -> None:
    calls: list[Callable[[], None]] = [
        lambda: links.cut(A, "nobody"),
        lambda: links.cut_one_way("nobody", A),
        lambda: links.isolate("nobody"),
        lambda: links.lossy("nobody", 1),
        lambda: links.slow("nobody", 1),
        lambda: links.mend("nobody"),
        lambda: links.renew("nobody"),
    ]
    for call in calls:
        with pytest.raises(KeyError, match="nobody"):
            call()
    with pytest.raises(ValueError, match="percent"):
        links.lossy(A, 101)
    with pytest.raises(ValueError, match="kbit"):
        links.slow(A, 0)
    assert reaching(three) == ALL


def test_links_of_a_place_that_is_here_are_not_touched() -> None:
    with pytest.raises(ValueError, match="no network namespace: here"):
        Links({"here": Place("here")})


def test_runs_beside_each_other_have_networks_of_their_own(three: Mapping[str, Place]) -> None:
    with places([A]) as others:
        assert others[A].address.rpartition(".")[0] != three[A].address.rpartition(".")[0]
        assert leads_there(others[A].address)
    assert not leads_there(others[A].address)


async def test_nothing_is_left_of_places_whose_run_was_killed(three: Mapping[str, Place]) -> None:
    del three  # only to be skipped where it is
    code = "from survival.place import places; p = places('ab'); print(p.__enter__()['a'].address, flush=True); input()"
    bench = Path(__file__).parents[2] / "bench"
    process = subprocess.Popen(  # noqa: ASYNC220 - it takes a moment, and nothing else goes on here
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(bench)},
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        assert leads_there(address)
        process.send_signal(signal.SIGKILL)
    await until(lambda: not leads_there(address), "its namespaces are gone, and what led there")


def test_without_the_programs_it_is_said_which_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("who is not root is told that first")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPermitted, match="unshare"), places([A]):
        pass
