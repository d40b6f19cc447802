"""Dashboards and alerts against a live fleet: what is asked is answered, and what breaks is told within a minute."""

import asyncio
import signal
from collections.abc import Callable, Iterator

import nats
import pytest
from headrace_contracts import subjects
from nats.aio.client import Client as NatsClient
from nats.js.errors import APIError

from ..conftest import DEMO_MODEL
from . import boards, watched
from .watched import Fleet, Prometheus, eventually

# What a fleet of this kind cannot answer, and why. All the same, nothing of it may be an error.
_SILENT = {
    "headrace_worker_device_utilisation_ratio": "a CUDA device says it",
    "headrace_worker_device_memory_bytes": "a CUDA device says it",
    "headrace_broker_memory_limit_bytes": "an account without limits has none",
    "headrace_broker_storage_limit_bytes": "an account without limits has none",
}

pytestmark = pytest.mark.timeout(300)  # the whole drill, on cores that others use, too


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Iterator[Fleet]:
    """Two workers, a gateway, an exporter and Prometheus, under queries and a bulk job."""
    folder = tmp_path_factory.mktemp("fleet")
    with watched.watched(folder, program("prometheus")) as running, watched.under_load(running, folder):
        yield running


def test_every_query_of_every_panel_is_answered(fleet: Fleet) -> None:
    waiting = [asked for asked in boards.queries() if not any(series in asked.expr for series in _SILENT)]

    def unanswered() -> list[str]:
        nonlocal waiting
        waiting = [asked for asked in waiting if not fleet.prometheus.query(asked.as_grafana_would("30s"))]
        return [f"{asked.where}: {asked.expr}" for asked in waiting]

    try:
        eventually(lambda: not unanswered(), "all are", 90)
    except AssertionError:
        pytest.fail("no data for\n" + "\n".join(unanswered()))


def test_what_this_fleet_cannot_answer_is_no_error_either(fleet: Fleet) -> None:
    rest = [asked for asked in boards.queries() if any(series in asked.expr for series in _SILENT)]
    assert len(rest) >= len(_SILENT)
    for asked in rest:
        fleet.prometheus.query(asked.as_grafana_would("30s"))


def test_variables_offer_what_there_is(fleet: Fleet) -> None:
    assert fleet.prometheus.labels("headrace_fleet_workers", "model") == [DEMO_MODEL]
    assert len(fleet.prometheus.labels("headrace_worker_info", "worker")) == 2
    assert fleet.prometheus.labels("headrace_job_info", "bulk_job")


def test_a_fleet_that_is_well_has_nothing_to_tell(fleet: Fleet) -> None:
    # Slow it may be: it shares its cores with whatever else runs here.
    assert {name for name in fleet.prometheus.firing() if "Latency" not in name and "Backlog" not in name} == set()
    assert fleet.prometheus.unhealthy_rules() == []


async def test_an_operator_is_told_of_each_disaster_within_a_minute(fleet: Fleet) -> None:
    prometheus = fleet.prometheus
    killed, last = fleet.workers
    connection = await nats.connect(fleet.url, allow_reconnect=False)
    try:
        # Among online work: a batch chunk would wait for its turn behind the job's.
        await connection.jetstream().publish(subjects.online(DEMO_MODEL, 0, 0), b"this is no chunk")
        await _told(prometheus, "HeadraceDeadLetters")

        killed.kill()
        alert = await _told(prometheus, "HeadraceWorkerDown")
        assert DEMO_MODEL in alert["annotations"]["description"]

        last.send_signal(signal.SIGSTOP)
        try:
            filling = asyncio.create_task(_keep_full(connection))
            alert = await _told(prometheus, "HeadraceOnlineQueueFull")
            filling.cancel()
        finally:
            last.send_signal(signal.SIGCONT)
        assert alert["labels"]["model"] == DEMO_MODEL
    finally:
        await connection.close()

    fleet.broker.kill()
    for name in ("HeadraceBrokerDown", "HeadraceWorkerDisconnected", "HeadraceGatewayDown"):
        await _told(prometheus, name)
    assert prometheus.unhealthy_rules() == []


async def _told(prometheus: Prometheus, name: str) -> dict[str, dict[str, str]]:
    return await asyncio.to_thread(prometheus.await_alert, name)


async def _keep_full(connection: NatsClient) -> None:
    """Publish to an online queue until it refuses, and again, since it forgets what is 30 s old."""
    jetstream = connection.jetstream()
    while True:
        try:
            await jetstream.publish(subjects.online(DEMO_MODEL, 0, 0), bytes(8192))
        except APIError:
            await asyncio.sleep(0.2)  # full: make sure that it stays so
