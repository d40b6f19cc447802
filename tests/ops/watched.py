"""A whole fleet as processes of their own, scraped by a real Prometheus with the files of ops/prometheus/."""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from headrace import HeadraceError, SyncClient, local
from pyarrow import parquet

from ..conftest import DEMO_MODEL
from ..gateway.running import gateway
from . import rules

_WHERE = re.compile(r"http://[\d.]+:\d+")


def eventually(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait until the condition holds; fail with `what` when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain until {what}"
        time.sleep(0.25)  # others compute meanwhile: Prometheus has no event for what it has scraped


@dataclass(frozen=True)
class Prometheus:
    """Its HTTP API."""

    url: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples now; fails where Prometheus finds an error in the expression."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expr}, timeout=20).json()
        assert answer["status"] == "success", f"{expr}: {answer.get('error')}"
        samples: list[dict[str, Any]] = answer["data"]["result"]
        return samples

    def labels(self, series: str, label: str) -> list[str]:
        """What Grafana offers for a variable."""
        asked = httpx.get(f"{self.url}/api/v1/label/{label}/values", params={"match[]": series}, timeout=20)
        values: list[str] = asked.json()["data"]
        return values

    def firing(self) -> dict[str, dict[str, Any]]:
        """Alerts that fire, by name; of several with one name, the first."""
        alerts = httpx.get(f"{self.url}/api/v1/alerts", timeout=20).json()["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in reversed(alerts) if alert["state"] == "firing"}

    def await_alert(self, name: str) -> dict[str, Any]:
        """The alert, once it fires: it has a minute."""
        eventually(lambda: name in self.firing(), f"{name} fires", 60)
        return self.firing()[name]

    def unhealthy_rules(self) -> list[str]:
        """What went wrong with a rule, the texts of alerts included."""
        groups = httpx.get(f"{self.url}/api/v1/rules", timeout=20).json()["data"]["groups"]
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in groups
            for rule in group["rules"]
            if rule.get("lastError")
        ]


@dataclass(frozen=True)
class Fleet:
    """What runs."""

    url: str
    broker: "subprocess.Popen[bytes]"
    workers: tuple["subprocess.Popen[bytes]", ...]
    gateway: str
    prometheus: Prometheus


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on now."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports: list[int] = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


@contextmanager
def watched(folder: Path, prometheus: str) -> Iterator[Fleet]:
    """Two workers, a gateway, an exporter and Prometheus around one nats-server, while the context lasts."""
    monitor, first, second, port = free_ports(4)
    with ExitStack() as stack:
        # The server that `headrace up` runs, with its monitoring port.
        broker = stack.enter_context(local._server(-1, "-js", "-sd", str(folder / "nats"), "-m", str(monitor)))
        workers = [
            stack.enter_context(_worker(broker.url, where, folder / f"worker-{where}.log")) for where in (first, second)
        ]
        web = stack.enter_context(gateway(broker.url))
        exporter = stack.enter_context(_exporter(broker.url, f"http://127.0.0.1:{monitor}", folder))
        targets = {
            "worker": [f"127.0.0.1:{first}", f"127.0.0.1:{second}"],
            "gateway": [web.url.removeprefix("http://")],
            "exporter": [exporter],
        }
        scraping = stack.enter_context(_prometheus(prometheus, folder / "prometheus", targets, port))
        # What is counted from its second sample on must not have begun before the first.
        eventually(lambda: len(scraping.query("count_over_time(up[1m]) > 1 and up == 1")) == 4, "all are scraped twice")
        yield Fleet(broker.url, broker.process, tuple(workers), web.url, scraping)


@contextmanager
def _worker(url: str, port: int, log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    flags = ("--monitor", f"127.0.0.1:{port}", "--threads", "1", "--dtype", "float32")
    with local.worker(DEMO_MODEL, url, *flags, log=log) as process:
        try:
            yield process
        finally:
            process.kill()  # its broker may be gone, so there is nothing to drain


@contextmanager
def _exporter(url: str, monitor: str, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "headrace", "exporter", "--nats", url, "--listen", "127.0.0.1:0"]
    log = folder / "exporter.log"
    with log.open("wb") as file, subprocess.Popen([*command, "--nats-monitor", monitor], stderr=file) as process:
        try:
            eventually(lambda: _WHERE.search(log.read_text()) or process.poll() is not None, "the exporter listens")
            found = _WHERE.search(log.read_text())
            assert found is not None, log.read_text()
            yield found[0].removeprefix("http://")
        finally:
            process.terminate()


@contextmanager
def _prometheus(program: str, folder: Path, targets: dict[str, list[str]], port: int) -> Iterator[Prometheus]:
    """With the files as they are kept; only the targets are others."""
    folder.mkdir()
    for name in ("prometheus.yml", "recording.yml", "alerts.yml"):
        shutil.copy(rules.FOLDER / name, folder)
    (folder / "targets").mkdir()
    for name, addresses in targets.items():
        (folder / "targets" / f"{name}.yml").write_text(json.dumps([{"targets": addresses}]))
    command = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log) as process,
    ):
        found = Prometheus(f"http://127.0.0.1:{port}")
        try:
            eventually(lambda: _is_ready(found.url) or process.poll() is not None, "Prometheus is ready")
            assert process.poll() is None, (folder / "log").read_text()
            yield found
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def under_load(fleet: Fleet, folder: Path) -> Iterator[None]:
    """Queries by NATS and by HTTP, and a bulk job that is not done before the context ends."""
    corpus = folder / "corpus.parquet"
    texts = [f"{'a mill by the river ' * 20}, number {row}" for row in range(20_000)]
    parquet.write_table(pa.table({"id": range(len(texts)), "text": texts}), corpus)
    sink = f"numpy:{folder / 'vectors'}"
    job = [sys.executable, "-m", "headrace", "reindex", str(corpus), "--to", sink, "--id", "id", "--nats", fleet.url]
    stop = threading.Event()
    asking = threading.Thread(target=_ask, args=(fleet, stop), daemon=True)
    with (folder / "job.log").open("wb") as log:
        asking.start()
        process = subprocess.Popen([*job, "--window-rows", "256"], stderr=log, stdout=log)
        try:
            yield
            assert process.poll() is None, f"the bulk job ended early: {(folder / 'job.log').read_text()[-2000:]}"
        finally:
            stop.set()
            process.kill()
            process.wait()
            asking.join()


def _ask(fleet: Fleet, stop: threading.Event) -> None:
    """One query after the other, until told to stop."""
    with SyncClient(fleet.url) as client, httpx.Client(base_url=fleet.gateway, timeout=20) as web:
        while not stop.wait(0.2):
            try:
                client.embed("where does the water go?", timeout=10)
                web.post("/v1/embeddings", json={"model": DEMO_MODEL, "input": "where does the water go?"})
            except (HeadraceError, httpx.HTTPError) as error:
                sys.stderr.write(f"a query failed: {error!r}\n")
