"""Fixtures of the tests that need Debian packages: a Docker daemon, and in it the images of ops/Dockerfile."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import base_image, docker, image, packages, wheelhouse

ROOT = Path(__file__).parents[2]
# What was fetched for an earlier run: a base image, and packages.
KEPT = ROOT / ".pytest_cache" / "ops"
EXTRAS = ("worker", "otel", "gateway", "exporter")


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """From the name of a program to its path; a test that asks for one that is not here is skipped."""

    def find(name: str) -> str:
        found = packages.find(name)
        if found is None:
            owner = next(package.name for package in packages.listed() if package.program == name)
            pytest.skip(f"{name} is not here: apt-get install {owner}")
        return found

    return find


@pytest.fixture(scope="session")
def daemon(program: Callable[[str], str]) -> Iterator[docker.Docker]:
    """A Docker daemon that nobody else uses."""
    for name in ("dockerd", "docker-compose", "debootstrap"):
        program(name)
    try:
        with docker.docker() as running:
            yield running
    except docker.CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def images(daemon: docker.Docker, tmp_path_factory: pytest.TempPathFactory) -> docker.Docker:
    """A Docker daemon that has headrace:cpu and headrace:client, built as the guide says."""
    try:
        base_image.make(KEPT / "base.tar")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"debootstrap makes no base image here: {error}")
    base_image.load(daemon, KEPT / "base.tar")
    wheelhouse.fetch(KEPT / "wheels", EXTRAS)
    with wheelhouse.served(KEPT / "wheels") as url:
        for target in ("cpu", "client"):
            image.build(daemon, target, url, tmp_path_factory.mktemp("pip") / "pip.conf")
    return daemon
