"""`headrace job` as a script meets it."""

import asyncio
import json
import time
from dataclasses import replace

import pytest
from headrace import local
from headrace.bulk.cut import Span, Spans
from headrace.bulk.jobs.claim import Claims
from headrace.bulk.jobs.facts import job_facts, shard_facts, shard_state
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import Checkpoint, Owner, ShardRecord, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.commands.job import end_of
from headrace_contracts import subjects, topology

from ..fleet.broker_view import api, num_messages
from ..headrace_command import run
from .bulk.broker import connections
from .bulk.job_records import CARD, job

POINT = Checkpoint(Spans((Span(0, 5, 0, 500),)), Tally(500, 480, 10, 10, 9000, 2))


async def begin_and_claim(url: str) -> None:
    """A job that is half done, and stands as if this process were at work on it."""
    async with connections(url, 1) as (nats,):
        await Jobs(nats).begin(job())
        claim = await Claims(Jobs(nats), "nightly", 1, this_process()).next()
        assert claim is not None
        await claim.save(POINT)


@pytest.fixture
def begun(nats_server: local.Server) -> str:
    """URL of a server with such a job."""
    asyncio.run(begin_and_claim(nats_server.url))
    return nats_server.url


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_before_there_is_any_bucket_there_are_no_jobs(nats_server: local.Server, flags: list[str]) -> None:
    ended = run("job", "ls", *flags, fleet=nats_server.url)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert flags or "There are no jobs: `headrace reindex` begins one" in ended.stderr


def test_jobs_are_listed_for_people_and_for_programs(begun: str) -> None:
    table = run("job", "ls", fleet=begun)
    assert table.returncode == 0, table.stderr
    for word in ("nightly", "running", "50 %", "500 of 1,000", "minilm", "articles/*.parquet"):
        assert word in table.stdout
    facts = json.loads(run("job", "ls", "--json", fleet=begun).stdout)
    assert facts.items() >= {"name": "nightly", "progress": 0.5, "rows": 500, "failed": 10, "processes": 1}.items()


def test_a_job_is_shown_with_its_shards_and_who_works_on_them(begun: str) -> None:
    shown = run("job", "show", "nightly", fleet=begun)
    owner = this_process()
    assert shown.returncode == 0, shown.stderr
    for word in (
        "parquet:vectors",
        "384 × f32",
        "0 of 3 done",
        "headrace reindex 'articles/*.parquet' --to parquet:vectors --job nightly --model minilm --dim 384",
        f"{owner.host}:{owner.pid}",
        "2 of 3 shards have not",
    ):
        assert word in shown.stdout
    facts = json.loads(run("job", "show", "nightly", "--json", fleet=begun).stdout)
    (shard,) = facts["shards"]
    assert shard.items() >= {"shard": 0, "state": "at work", "windows_done": 5, "written": 480}.items()
    assert facts["options"]["id_column"] is None


def test_a_job_is_paused_resumed_and_cancelled_and_then_no_more(begun: str) -> None:
    said = [
        run("job", *arguments, fleet=begun)
        for arguments in (
            ("pause", "nightly", "--reason", "the fleet is needed"),
            ("show", "nightly"),
            ("resume", "nightly"),
            ("cancel", "nightly"),
            ("resume", "nightly"),
            ("pause", "nightly"),
        )
    ]
    assert [ended.returncode for ended in said] == [0, 0, 0, 0, 1, 1]
    assert "job nightly is paused; `headrace job resume nightly`" in said[0].stdout
    assert "the fleet is needed" in said[1].stdout
    assert "job 'nightly' is cancelled and cannot become running: to run it again, repeat" in said[4].stderr
    assert json.loads(run("job", "ls", "--json", fleet=begun).stdout)["state"] == "cancelled"


def test_a_job_that_is_worked_on_is_forgotten_by_force_alone(begun: str) -> None:
    refused = run("job", "rm", "nightly", fleet=begun)
    assert refused.returncode == 1
    assert f"is worked on by {this_process().host}" in refused.stderr
    forced = run("job", "rm", "nightly", "--force", fleet=begun)
    assert "job nightly is forgotten; its sink is as it was" in forced.stdout
    assert run("job", "ls", fleet=begun).stdout == ""


@pytest.mark.parametrize("command", ["show", "pause", "resume", "cancel", "rm"])
def test_a_job_that_is_not_there_is_named(nats_server: local.Server, command: str) -> None:
    ended = run("job", command, "nosuch", fleet=nats_server.url)
    assert ended.returncode == 2
    assert "there is no job 'nosuch': `headrace job ls` lists those that are" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_name_that_no_job_can_have_is_refused(nats_server: local.Server) -> None:
    ended = run("job", "show", "a.b", fleet=nats_server.url)
    assert ended.returncode == 2
    assert "job 'a.b' will not do" in ended.stderr


def test_no_server_is_said_with_what_to_do() -> None:
    ended = run("job", "ls")
    assert ended.returncode == 1
    assert "headrace up" in ended.stderr


async def break_record(url: str) -> None:
    async with connections(url, 1) as (nats,):
        await Jobs(nats).begin(job())
        await Jobs(nats).bucket.put("broken", b'{"v": 2}', None)


def test_a_record_that_cannot_be_read_is_said_and_can_be_forgotten(nats_server: local.Server) -> None:
    asyncio.run(break_record(nats_server.url))
    listed = run("job", "ls", "--json", fleet=nats_server.url)
    assert json.loads(listed.stdout)["name"] == "nightly"
    assert "broken" in listed.stderr
    shown = run("job", "show", "broken", fleet=nats_server.url)
    assert shown.returncode == 1
    assert "v is 2, and this headrace knows 1" in shown.stderr
    assert run("job", "rm", "broken", fleet=nats_server.url).returncode == 0


async def test_what_waits_in_the_broker_for_a_forgotten_job_goes_with_it_and_nothing_else(
    nats_server: local.Server,
) -> None:
    async with connections(nats_server.url, 1) as (nats,):
        await Jobs(nats).begin(job())
        queue = topology.batch_stream(CARD.model, max_msg_size=1000)
        for spec in (queue, topology.results_stream()):
            await api(nats, f"STREAM.CREATE.{spec.name}", spec.to_api())
        for name in ("nightly", "nightly-2"):
            await nats.jetstream().publish(subjects.batch(CARD.model, name, 3), b"a chunk")
            await nats.jetstream().publish(subjects.results(name, 3), b"a result")
        await Jobs(nats).forget("nightly")
        assert [await num_messages(nats, name) for name in (queue.name, "HR_RESULTS")] == [1, 1]


def test_what_strangers_wrote_gives_no_orders_to_a_terminal(nats_server: local.Server) -> None:
    async def begin() -> None:
        async with connections(nats_server.url, 1) as (nats,):
            await Jobs(nats).begin(job(source="\x1b[31m[bold]\udcff\n.parquet", num_rows=None, num_shards=0))

    asyncio.run(begin())
    for command in (["ls"], ["show", "nightly"]):
        ended = run("job", *command, fleet=nats_server.url)
        assert ended.returncode == 0, ended.stderr
        assert r"\x1b[31m[bold]\udcff\n.parquet" in ended.stdout


NOW_MS = time.time_ns() // 1_000_000


def shard(**changes: object) -> ShardRecord:
    found = ShardRecord(0, Owner("ab", "mill", 42), 3, POINT, 1, 7, NOW_MS)
    return replace(found, **changes)  # type: ignore[arg-type] # any field


def test_a_shard_is_at_work_as_long_as_its_owner_gives_signs() -> None:
    assert shard_state(shard(), NOW_MS) == "at work"
    assert shard_state(shard(), NOW_MS + 59_000) == "at work"
    assert shard_state(shard(), NOW_MS + 61_000) == "silent"
    assert shard_state(shard(owner=None), NOW_MS) == "waiting"
    assert shard_state(shard(owner=replace(this_process(), started=1)), NOW_MS) == "waiting"
    assert shard_state(shard(checkpoint=replace(POINT, is_done=True)), NOW_MS + 61_000) == "done"


def test_a_process_with_many_shards_is_one_and_silent_ones_are_not_counted() -> None:
    shards = {0: shard(), 1: shard(shard=1), 2: shard(shard=2, owner=Owner("cd", "weir", 1), written_ms=1)}
    assert job_facts(job(), shards, NOW_MS)["processes"] == 1
    assert shard_facts(shards[2], NOW_MS)["owner"] == "weir:1"


def test_progress_is_by_rows_or_else_by_shards() -> None:
    done = shard(checkpoint=replace(POINT, is_done=True))
    assert job_facts(job(), {}, NOW_MS)["progress"] == 0
    assert job_facts(job(num_rows=400), {0: shard()}, NOW_MS)["progress"] == 1
    assert job_facts(job(num_rows=None), {0: done}, NOW_MS)["progress"] == 1 / 3
    assert job_facts(job(num_rows=None, num_shards=0), {}, NOW_MS)["progress"] is None
    assert job_facts(job(num_rows=0, num_shards=0, state="done"), {}, NOW_MS)["progress"] == 1


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/data/news/articles.parquet", "…/articles.parquet"),
        ("articles/*.parquet", "articles/*.parquet"),
        ("/data/news/*.parquet", "…/news/*.parquet"),
        ("parquet:/data/vectors", "parquet:…/vectors"),
        ("parquet:vectors", "parquet:vectors"),
        ("qdrant:http://mill:6333#articles", "qdrant:…/mill:6333#articles"),
        ("postgresql://mill:5432/db#articles", "postgresql:…/db#articles"),
        ("duckdb:SELECT id, text FROM '/data/articles.csv'", "duckdb:SELECT id, text FROM '/data/articles.csv'"),
    ],
)
def test_of_a_place_its_end_is_listed(place: str, said: str) -> None:
    assert end_of(place) == said
