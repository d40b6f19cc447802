from headrace.bulk.jobs.record import Tally
from headrace.commands.top_view import Picture, lines
from headrace.survey import Survey

from .fleets import a_job, a_queue, a_status, a_survey, some_dead


def shown(picture: Picture, width: int = 80) -> str:
    found = [line.plain for line in lines(picture, width)]
    assert all(len(line) <= width for line in found)
    return "\n".join(found)


def test_a_fleet_at_rest_is_said_to_be() -> None:
    text = shown(Picture(survey=a_survey(), statuses=[]))
    for words in (
        "nats-server 2.12.1, 0.4 ms away: nats-1",
        "memory 1.0 MiB of 1.0 GiB · disk 3.0 GiB ·",
        "no dead letters",
    ):
        assert words in text
    assert "there is no worker" in text
    assert "JOB" not in text
    assert "not seen" not in text


def test_each_worker_has_its_line_under_its_model() -> None:
    workers = [
        a_status(),
        a_status(worker="mill-2", state="draining", waits_for="5 chunks in hand", rate=0),
        a_status(worker="wheel-1", model="wheel"),
    ]
    found = shown(Picture(survey=a_survey(), statuses=workers)).splitlines()
    at = found.index("scorer")
    assert found[at + 1].split() == ["mill-1", "serving", "12.4k", "5", "2.0k", "25%", "0%", "2", "h"]
    assert found[at + 2].split()[:3] == ["mill-2", "draining", "–"]
    assert found[at + 3].strip() == "waits for 5 chunks in hand"
    assert found[at + 4] == "wheel"


def test_queues_are_told_in_chunks_tokens_and_seconds_of_the_workers_that_serve() -> None:
    queue = a_queue(num_messages=100, num_bytes=500_000, oldest_s=75.0)
    workers = [a_status(), a_status(worker="b", rate=0), a_status(worker="c", state="drained")]
    text = shown(Picture(survey=a_survey(queues=(queue,)), statuses=workers))
    (line,) = [each.split() for each in text.splitlines() if each.startswith("scorer ")]
    seconds = queue.num_tokens / (2 * 12_400)
    assert line == [
        "scorer",
        "batch",
        "100",
        f"{queue.num_tokens / 1000:.0f}k",
        f"{seconds:.1f}",
        "s",
        "75",
        "s",
        "50%",
    ]


def test_of_jobs_the_unfinished_are_all_there_and_the_latest_that_ended() -> None:
    tally = Tally(rows=250, written=250)
    jobs = [
        a_job(name="ended-1", state="done"),
        a_job(tally=tally, processes=2, rows_per_s=50.0),
        *(a_job(name=f"ended-{n}", state="cancelled") for n in range(2, 7)),
        a_job(name="idle", tally=tally),
    ]
    found = shown(Picture(survey=a_survey(jobs=tuple(jobs)), statuses=[])).splitlines()
    at = next(n for n, line in enumerate(found) if line.startswith("JOB"))
    assert found[at + 1].split() == ["nightly", "running", "250", "25%", "50", "15", "s", "2"]
    assert found[at + 2].split()[:2] == ["idle", "waiting"]
    assert [line.split()[0] for line in found[at + 3 : at + 6]] == ["ended-1", "ended-2", "ended-3"]
    assert found[at + 6].strip() == "and 3 that ended before"


def test_dead_letters_are_counted() -> None:
    assert "dead letters 3 of scorer (online)" in shown(Picture(survey=a_survey(dead_letters=some_dead()), statuses=[]))


def test_what_is_not_known_is_said_to_be_with_the_reason_once() -> None:
    gone = Survey(taken_s=0, took_s=0, missing=dict.fromkeys(("broker", "jobs", "dead_letters"), "no connection"))
    text = shown(Picture(survey=gone, statuses=None, trouble="there is no connection to nats-server"))
    assert "no nats-server answers" in text
    assert "not known: there is no connection to nats-server" in text
    assert text.count("(no connection)") == 1
    assert "not seen: broker, jobs, dead letters (no connection)" in text


def test_long_names_and_orders_to_the_terminal_are_kept_within_their_place() -> None:
    workers = [a_status(worker="w" * 64, device="\x1b[31m")]
    survey = a_survey(queues=(a_queue(model="m" * 64),), jobs=(a_job(name="j" * 64),))
    for width in (40, 80, 200):
        text = shown(Picture(survey=survey, statuses=workers), width)
        assert "\x1b" not in text
        assert "w…" in text
