"""The examples in the guides run as they stand."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from headrace.bulk import Snapshot
from headrace.cli import build

from .gateway.running import gateway
from .guide_desk import GuideDesk
from .producer.bulk.postgres import serving

ROOT = Path(__file__).parents[1]
GUIDES = ["README.md", "producer/README.md", "engine/README.md", "ops/access.md"]


def examples(language: str) -> list[tuple[str, str]]:
    return [
        (guide, code)
        for guide in GUIDES
        for code in re.findall(rf"```{language}\n(.*?)```", (ROOT / guide).read_text("utf-8"), re.DOTALL)
    ]


def named(value: str) -> str:
    """A guide's name, or the line of an example that tells it from others."""
    telling = re.search(r"^(?:headrace|class|async def|with|def) .*", value, re.MULTILINE)
    return value if value in GUIDES or telling is None else telling[0]


@pytest.fixture(scope="module")
def http(fleet: str) -> Iterator[str]:
    """URL of a gateway to the fleet."""
    with gateway(fleet) as running:
        yield running.url


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """URL of a real Postgres with pgvector."""
    with serving() as url:
        yield url


@pytest.fixture
def desk(tmp_path: Path) -> GuideDesk:
    """A folder with what the examples say is there."""
    return GuideDesk(tmp_path)


@pytest.mark.parametrize(("guide", "code"), examples("python"), ids=named)
def test_an_example_runs_as_it_stands(guide: str, code: str, fleet: str, http: str, desk: GuideDesk) -> None:
    code = code.replace("nats://127.0.0.1:4222", fleet).replace("http://127.0.0.1:8080", http)
    ended = subprocess.run([sys.executable, "-c", code], cwd=desk.folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{guide}: {ended.stderr}"


@pytest.mark.parametrize(("guide", "code"), examples("sh"), ids=named)
def test_a_command_runs_as_it_stands(guide: str, code: str, fleet: str, database: str, desk: GuideDesk) -> None:
    desk.lay_out_broker(fleet)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HEADRACE_NATS": fleet, "DATABASE_URL": database}
    ended = subprocess.run(
        [shutil.which("bash") or "bash", "-euo", "pipefail", "-c", code],
        cwd=desk.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{guide}: {ended.stdout}{ended.stderr}"


def flags(command: Any) -> Iterator[str]:
    """All that a command and its subcommands take."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for below in getattr(command, "commands", {}).values():
        yield from flags(below)


def test_flags_that_the_guide_names_are_there() -> None:
    known = {*flags(typer.main.get_command(build())), "--help"}
    found = re.findall(r"(?<![\w-])--[a-z][a-z-]*", (ROOT / "producer/README.md").read_text("utf-8"))
    assert set(found) <= known


def test_the_guide_names_every_field_of_a_line_of_progress() -> None:
    guide = (ROOT / "producer/README.md").read_text("utf-8")
    assert not {field.name for field in fields(Snapshot) if f"`{field.name}`" not in guide}


@pytest.mark.parametrize("path", [p for p in ROOT.rglob("*.md") if ".venv" not in p.parts], ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path}: {target}"
