"""Each role does its work on a server with access control, and is refused all else. It runs ops/nats/single.conf."""

import asyncio
import json
import logging
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from headrace import AccessDenied, Client, ConnectionFailed
from headrace.bulk.jobs.bucket import Bucket
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.reindex import reindex
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.verify import verify
from headrace.dead_letters import DeadLetters
from headrace.reach import reached
from headrace.survey.surveyor import take
from headrace.workforce import Workforce
from headrace_contracts import connection
from headrace_contracts.access import ROLES, Scope
from headrace_contracts.refusal import NotAllowed
from headrace_engine import Engine
from headrace_workers.errors import AccessRefused

from ..waiting import until
from .bulk_jobs import MemorySink
from .harness import brisk, running
from .secured import FOUNDER, MODEL, Secured, secured


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server with users of all roles, for all tests of this file."""
    with secured(tmp_path_factory.mktemp("secured")) as made:
        yield made


async def attempts(fleet: Secured, role: str, action: str, subjects: list[str]) -> set[str]:
    """Those of the subjects that the role is refused, in small letters."""
    access, refused = fleet.credentials(role), set[str]()
    nats, link = await connection.connect(
        fleet.url, name=role, inbox=connection.inbox_of("x", access), timeout_s=5, access=access
    )
    link.on_not_allowed = lambda error: refused.add(error.violation.subject.lower())
    for subject in subjects:
        if action == "publish":
            await nats.publish(subject, b"")
        else:
            await nats.subscribe(subject)
    # nats-py sends a PING before what it has collected; what the server says to that comes before the second answer.
    for _ in range(2):
        await nats.flush(timeout=5)
    await connection.close(nats)
    return refused


async def test_what_a_user_may_not_do_fills_no_log(fleet: Secured, caplog: pytest.LogCaptureFixture) -> None:
    refused = await attempts(fleet, "query", "publish", [f"hr.batch.other.{call}" for call in range(300)])
    assert len(refused) == 300, "whoever waits is told of each"
    said = [each for each in caplog.records if "does not let" in each.getMessage()]
    assert len(said) == 100


M, NEXT = MODEL, "$JS.API.CONSUMER.MSG.NEXT"
PUBLISH = {
    f"hr.online.{M}.0.0": "query operator",
    f"hr.batch.{M}.call": "query operator",
    f"hr.batch.{M}.job.0": "bulk operator",
    "hr.online.other.0.0": "operator",
    f"hr.cancel.{M}": "query",
    "hr.inbox.query.x.c.1.r": "worker",
    "hr.results.job.0": "worker",
    f"hr.dead.{M}.online": "worker",
    f"hr.fleet.{M}": "worker",
    "hr.fleet.other": "",
    "hr.control.w1.drain": "operator",
    "hr.control.w1.status": "operator monitor",
    "$SRV.PING": "operator monitor",
    f"$KV.hr_models.{M}": "worker operator",
    "$KV.hr_models.other": "operator",
    "$KV.hr_jobs.job": "bulk operator",
    "$O.hr_tokenizers.C.chunk": "worker",
    "$JS.API.STREAM.CREATE.HR_SPY": "operator",
    f"$JS.API.STREAM.CREATE.HR_ONLINE_{M}_0_0": "worker operator",
    f"$JS.API.STREAM.CREATE.HR_BATCH_{M}": "operator",
    f"$JS.API.STREAM.UPDATE.HR_ONLINE_{M}_0_0": "worker operator",
    "$JS.API.STREAM.UPDATE.HR_ONLINE_other_0_0": "operator",
    "$JS.API.STREAM.UPDATE.HR_RESULTS": "operator",
    f"$JS.API.STREAM.DELETE.HR_BATCH_{M}": "operator",
    "$JS.API.STREAM.DELETE.KV_hr_models": "operator",
    f"$JS.API.STREAM.PURGE.HR_BATCH_{M}": "bulk operator",
    "$JS.API.STREAM.PURGE.HR_BATCH_other": "operator",
    "$JS.API.STREAM.PURGE.HR_DEAD": "operator",
    "$JS.API.STREAM.LIST": "operator monitor",
    f"$JS.API.STREAM.MSG.GET.HR_BATCH_{M}": "",
    f"$JS.API.STREAM.MSG.GET.HR_ONLINE_{M}_0_0": "",
    "$JS.API.STREAM.MSG.GET.HR_DEAD": "operator",
    f"$JS.API.DIRECT.GET.HR_BATCH_{M}": "",
    f"$JS.API.CONSUMER.CREATE.HR_BATCH_{M}": "",
    f"$JS.API.CONSUMER.CREATE.HR_BATCH_{M}.spy": "",
    "$JS.API.CONSUMER.CREATE.HR_RESULTS.spy.hr.results.job.0": "bulk",
    "$JS.API.CONSUMER.CREATE.OBJ_hr_tokenizers": "",
    f"{NEXT}.HR_ONLINE_{M}_0_0.workers": "worker",
    f"{NEXT}.HR_BATCH_{M}.workers": "worker",
    f"{NEXT}.HR_BATCH_other.workers": "",
    f"{NEXT}.HR_RESULTS.job-0-1": "bulk",
    f"$JS.ACK.HR_BATCH_{M}.workers.1.1.1.1.1": "worker",
    f"$JS.ACK.hub.ABCDEF.HR_BATCH_{M}.workers.1.1.1.1.1": "worker",
    "$JS.ACK.HR_BATCH_other.workers.1.1.1.1.1": "",
    "$JS.ACK.HR_RESULTS.job-0-1.1.1.1.1.1": "bulk",
    "$JS.API.ACCOUNT.PURGE.G": "",
    "$SYS.REQ.SERVER.PING": "",
}
SUBSCRIBE = {
    ">": "",
    "_INBOX.>": "",
    "hr.inbox.>": "",
    "hr.inbox.query.>": "query",
    "hr.inbox.worker.>": "worker",
    "hr.online.>": "",
    "hr.batch.>": "",
    "hr.results.>": "",
    "hr.dead.>": "",
    "$JS.API.>": "",
    "$JS.ACK.>": "",
    "$KV.>": "",
    "$SYS.>": "",
    f"hr.cancel.{M}": "worker",
    "hr.cancel.other": "",
    f"hr.fleet.{M}": "query worker operator monitor",
    "hr.control.w1.drain": "worker",
    "$SRV.PING": "worker",
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("action", "table"), [("publish", PUBLISH), ("subscribe", SUBSCRIBE)])
async def test_a_role_may_do_what_it_is_for_and_is_refused_all_else(
    fleet: Secured, role: str, action: str, table: dict[str, str]
) -> None:
    refused = await attempts(fleet, role, action, list(table))
    assert refused == {subject.lower() for subject, roles in table.items() if role not in roles.split()}


async def test_every_role_does_its_work_and_asks_for_nothing_more(
    fleet: Secured, minilm: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, brisk(fleet.url, access=fleet.credentials(FOUNDER))):
        pass  # what `headrace provision` does otherwise
    async with reached(fleet.url, name="test", client_id="t", timeout_s=5, access=fleet.credentials("operator")) as it:
        await Bucket(it[0]).create()
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": f"text {i} of the mill"}) + "\n" for i in range(120)))
    sink = MemorySink(tmp_path / "files")
    worker = brisk(fleet.url, access=fleet.credentials("worker"), announce_s=0.2)
    async with running(minilm, worker) as at_work:
        async with await Client.connect(fleet.url, access=fleet.path("query")) as client:
            for priority in ("online", "batch"):
                assert (await client.embed(["a", "b"], priority=priority)).shape == (2, 384)
            assert [spec.name for spec in await client.models()] == [MODEL]
        bulk = fleet.credentials("bulk")
        summary = await reindex(open_source(str(corpus)), sink, job="job", url=fleet.url, access=bulk)
        assert (summary.written, summary.failed) == (120, 0)
        source = open_source(str(corpus))
        assert (await verify(source, sink, job="job", url=fleet.url, access=bulk)).is_good
        for role in ("operator", "monitor"):
            access = fleet.credentials(role)
            async with reached(fleet.url, name="t", client_id="t", timeout_s=5, access=access) as (nats, _):
                assert [job.name for job in await Jobs(nats).list()] == ["job"]
                survey = await take(nats, listen_s=0.5)
                assert not survey.missing, survey.missing
        access = fleet.credentials("operator")
        async with reached(fleet.url, name="t", client_id="t", timeout_s=5, access=access) as (nats, _):
            assert [letter async for letter in DeadLetters(nats).read()] == []
        await until(lambda: at_work.counters.answered > 0, "it answered")
    assert not [record.message for record in caplog.records if "does not let" in record.message]


async def test_a_call_that_is_not_allowed_ends_at_once_and_says_which_role_it_takes(fleet: Secured) -> None:
    async with await Client.connect(fleet.url, access=fleet.path("bulk")) as client:
        with pytest.raises(AccessDenied, match=r"user 'bulk' \(role bulk\) publish to hr\.online.*it takes role query"):
            await client.embed_ids([[101, 102]], timeout=20)


async def test_who_may_not_ask_for_workers_is_not_told_that_there_are_none(fleet: Secured) -> None:
    access = fleet.credentials("query")
    with pytest.raises(AccessDenied, match=r"publish to \$SRV\.PING.*it takes role operator or monitor;"):
        async with reached(fleet.url, name="t", client_id="t", timeout_s=5, access=access) as (nats, _):
            await Workforce(nats).all()


async def test_a_worker_that_may_not_create_what_is_missing_says_so_and_ends(minilm: Engine, tmp_path: Path) -> None:
    with secured(tmp_path) as empty:
        with pytest.raises(AccessRefused, match=r"STREAM\.CREATE.*an operator make it with `headrace provision`"):
            async with running(minilm, brisk(empty.url, access=empty.credentials("worker"))):
                pass
        stranger = replace(empty.credentials("worker"), seed=None, token="hush")  # noqa: S106 - of nobody
        with pytest.raises(AccessRefused, match="refuses these credentials"):
            async with running(minilm, brisk(empty.url, access=stranger)):
                pass


async def test_a_worker_makes_its_online_queues_anew_when_its_server_has_lost_them(
    minilm: Engine, tmp_path: Path
) -> None:
    with secured(tmp_path) as fleet:
        async with running(minilm, brisk(fleet.url, access=fleet.credentials(FOUNDER))):
            pass
        worker = brisk(fleet.url, access=fleet.credentials("worker"))
        async with running(minilm, worker), await Client.connect(fleet.url, access=fleet.path("query")) as client:
            assert (await client.embed(["before"])).shape == (1, 384)
            with fleet.restarted():
                assert (await client.embed(["after"], timeout=60)).shape == (1, 384)


async def test_a_user_that_is_removed_is_cut_off_and_comes_back_when_it_is_let_in_again(
    fleet: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.users.add("guest", "query", Scope(), fleet.credentials("query").tls.ca)  # type: ignore[union-attr] # it has TLS
    fleet.write_users()
    fleet.process.send_signal(signal.SIGHUP)
    async with await _connected(fleet, "guest") as client:
        user = fleet.users.users.pop("guest")
        fleet.write_users()
        fleet.process.send_signal(signal.SIGHUP)
        await until(lambda: "refuses these credentials" in caplog.text, "it is refused")
        await until(lambda: client.state == "reconnecting", "the loss is seen")
        fleet.users.users["guest"] = user
        fleet.write_users()
        fleet.process.send_signal(signal.SIGHUP)
        await client.wait_connected()
    said = [record for record in caplog.records if "refuses these credentials" in record.message]
    assert [record.levelno for record in said] == [logging.WARNING]
    assert "SU" not in caplog.text


async def _connected(fleet: Secured, name: str) -> Client:
    """A client of a user that the server may hear of in a moment: a reload tells nobody that it is done."""
    for _ in range(100):
        try:
            return await Client.connect(fleet.url, access=fleet.path(name))
        except ConnectionFailed:
            await asyncio.sleep(0.05)
    raise AssertionError(f"{name} is not let in")


async def test_not_allowed_is_told_to_the_request_that_asked(fleet: Secured) -> None:
    access = fleet.credentials("query")
    inbox = connection.inbox_of("x", access)
    nats, _ = await connection.connect(fleet.url, name="t", inbox=inbox, timeout_s=5, access=access)
    with pytest.raises(NotAllowed, match=r"\$JS\.API\.STREAM\.DELETE\.HR_RESULTS: it takes role operator"):
        await nats.request("$JS.API.STREAM.DELETE.HR_RESULTS", timeout=20)
    await connection.close(nats)
