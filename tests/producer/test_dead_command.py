"""`headrace dead` as a script meets it."""

import asyncio
import json

import pytest
from headrace import local
from headrace_contracts import subjects

from ..fleet.broker_view import connected, num_messages
from ..headrace_command import run
from .letters import MODEL, die, letter_headers, streams


async def kill_some(url: str) -> None:
    """Five letters: of two jobs, of a caller, of another model, and one that is no chunk."""
    async with connected(url) as nats:
        await streams(nats)
        await die(nats)
        await die(nats, letter_headers("hr.results.annual.0", f"HR_BATCH_{MODEL}-2", "too_long: \x1b[31m[bold]red"))
        await die(nats, letter_headers("hr.inbox.c11e47.3.r", f"HR_ONLINE_{MODEL}_0_1-5"), priority="online")
        await die(nats, letter_headers(place="HR_BATCH_other-1"), model="other")
        await die(nats, letter_headers(place=f"HR_BATCH_{MODEL}-6", reason="invalid: no map"), body=b"\xc1")


async def left(url: str) -> tuple[int, int]:
    """Letters, and chunks in the model's batch queue."""
    async with connected(url) as nats:
        return await num_messages(nats, "HR_DEAD"), await num_messages(nats, subjects.batch_stream(MODEL))


@pytest.fixture
def letters(nats_server: local.Server) -> str:
    """URL of a server with such letters."""
    asyncio.run(kill_some(nats_server.url))
    return nats_server.url


def test_before_there_is_any_stream_there_are_no_letters(nats_server: local.Server) -> None:
    listed = run("dead", "ls", fleet=nats_server.url)
    assert (listed.returncode, listed.stdout) == (0, "")
    assert "There are no dead letters" in listed.stderr
    assert run("dead", "show", "1", fleet=nats_server.url).returncode == 2
    replayed = run("dead", "replay", "--all", fleet=nats_server.url)
    assert (replayed.returncode, replayed.stdout) == (0, "0 replayed, 0 left as they were\n")


def test_letters_are_listed_for_people_and_for_programs(letters: str) -> None:
    table = run("dead", "ls", fleet=letters)
    assert table.returncode == 0, table.stderr
    for word in (
        "0-c0ffee",
        "nightly",
        "internal: this token id makes the engine fail",
        r"\x1b[31m[bold]red",
        "online",
    ):
        assert word in table.stdout
    lines = [json.loads(line) for line in run("dead", "ls", "--json", fleet=letters).stdout.splitlines()]
    assert [line["letter"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[0].items() >= {"model": MODEL, "class": "batch", "seq": 4, "tokens": 5, "deliveries": "3"}.items()
    assert lines[4]["chunk"] is None


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--model", "other"], [4]),
        (["--job", "nightly"], [1, 3, 4, 5]),
        (["--job", "annual"], [2]),
        (["--code", "too_long"], [2]),
        (["--code", "internal", "-m", MODEL], [1, 3]),
        (["--model", "nosuch"], []),
    ],
)
def test_letters_are_listed_by_what_they_are(letters: str, flags: list[str], wanted: list[int]) -> None:
    lines = run("dead", "ls", "--json", *flags, fleet=letters).stdout.splitlines()
    assert [json.loads(line)["letter"] for line in lines] == wanted


def test_a_letter_is_shown_with_all_that_is_known_of_it(letters: str) -> None:
    shown = run("dead", "show", "1", fleet=letters)
    assert shown.returncode == 0, shown.stderr
    for word in ("hr.results.nightly.7", "HR_BATCH_minilm-12", "0123456789abcdef", "body_bytes", "normalize"):
        assert word in shown.stdout
    facts = json.loads(run("dead", "show", "1", "--json", fleet=letters).stdout)
    assert facts.items() >= {"items": 2, "lengths": [3, 2], "task": "embed", "came_from": "HR_BATCH_minilm-12"}.items()
    broken = json.loads(run("dead", "show", "5", "--json", fleet=letters).stdout)
    assert broken["unreadable"]
    assert broken["body_bytes"] == 1


def test_a_letter_that_is_not_there_is_named(letters: str) -> None:
    ended = run("dead", "show", "77", fleet=letters)
    assert ended.returncode == 2
    assert "there is no letter 77" in ended.stderr


def test_letters_are_replayed_by_number_and_range(letters: str) -> None:
    ended = run("dead", "replay", "1", "2-2", fleet=letters)
    assert (ended.returncode, ended.stdout) == (0, "2 replayed, 0 left as they were\n")
    assert asyncio.run(left(letters)) == (3, 2)


def test_all_that_can_be_is_replayed_and_of_the_rest_is_said_why_it_stays(letters: str) -> None:
    ended = run("dead", "replay", "--all", fleet=letters)
    assert (ended.returncode, ended.stdout) == (1, "3 replayed, 2 left as they were\n")
    assert "letter 3 stays: whoever asked has long had the error as a reply" in ended.stderr
    assert "letter 4 stays: no NATS stream takes hr.batch.other.nightly.7" in ended.stderr
    assert asyncio.run(left(letters)) == (2, 3)
    forced = run("dead", "replay", "--all", "--force", "--model", MODEL, fleet=letters)
    assert (forced.returncode, forced.stdout) == (0, "1 replayed, 0 left as they were\n")


def test_letters_are_replayed_by_what_they_are(letters: str) -> None:
    assert run("dead", "replay", "--all", "--code", "too_long", fleet=letters).returncode == 0
    assert asyncio.run(left(letters)) == (4, 1)


def test_a_number_that_no_letter_has_is_named(letters: str) -> None:
    ended = run("dead", "replay", "1", "77", fleet=letters)
    assert (ended.returncode, ended.stdout) == (1, "1 replayed, 1 left as they were\n")
    assert "there is no letter 77" in ended.stderr


def test_letters_are_removed_by_number_and_range(letters: str) -> None:
    ended = run("dead", "rm", "1", "2-3", fleet=letters)
    assert (ended.returncode, ended.stdout) == (0, "3 removed\n")
    assert asyncio.run(left(letters)) == (2, 0)
    again = run("dead", "rm", "1", "4", fleet=letters)
    assert (again.returncode, again.stdout) == (1, "1 removed\n")
    assert "there is no letter 1" in again.stderr


@pytest.mark.parametrize(
    ("flags", "num_left"),
    [([], 0), (["--model", "other"], 4), (["--code", "internal", "-m", MODEL], 3)],
)
def test_all_letters_are_removed_by_what_they_are_once_somebody_is_sure(
    letters: str, flags: list[str], num_left: int
) -> None:
    unsure = run("dead", "rm", "--all", *flags, fleet=letters)
    assert unsure.returncode == 2
    assert "would be gone for good, and nobody is there to be asked: say so with --yes" in unsure.stderr
    assert asyncio.run(left(letters)) == (5, 0)
    sure = run("dead", "rm", "--all", "--yes", *flags, fleet=letters)
    assert (sure.returncode, sure.stdout) == (0, f"{5 - num_left} removed\n")
    assert asyncio.run(left(letters)) == (num_left, 0)


def test_where_there_is_nothing_to_remove_nobody_is_asked(nats_server: local.Server) -> None:
    ended = run("dead", "rm", "--all", fleet=nats_server.url)
    assert (ended.returncode, ended.stdout) == (0, "0 removed\n")
    wild = run("dead", "rm", "--all", "--yes", "--model", "*", fleet=nats_server.url)
    assert wild.returncode == 2
    assert "model name '*' will not do" in wild.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "say which letters"),
        (["replay", "1", "--all"], "say which letters"),
        (["replay", "x"], "'x' is no number of a letter: write 3, or 7-9"),
        (["replay", "3-"], "'3-' is no number"),
        (["replay", "9-3"], "'9-3' is no range"),
        (["replay", "0"], "'0' is no range: letters are counted from 1"),
        (["rm"], "as in `headrace dead rm 3 7-9`"),
        (["replay", "1" * 30], "is no number of a letter"),
        (["replay", "٣"], "is no number of a letter"),
    ],
)
def test_what_cannot_be_meant_is_said(arguments: list[str], message: str) -> None:
    ended = run("dead", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
