"""The examples in the guides run as they stand."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .gateway.running import gateway

ROOT = Path(__file__).parents[1]
GUIDES = ["README.md", "producer/README.md", "engine/README.md"]


def examples() -> list[tuple[str, str]]:
    return [
        (guide, code)
        for guide in GUIDES
        for code in re.findall(r"```python\n(.*?)```", (ROOT / guide).read_text("utf-8"), re.DOTALL)
    ]


@pytest.fixture(scope="module")
def http(fleet: str) -> Iterator[str]:
    """URL of a gateway to the fleet."""
    with gateway(fleet) as running:
        yield running.url


@pytest.mark.parametrize(("guide", "code"), examples(), ids=lambda value: value if len(value) < 30 else "code")
def test_an_example_runs_as_it_stands(guide: str, code: str, fleet: str, http: str) -> None:
    code = code.replace("nats://127.0.0.1:4222", fleet).replace("http://127.0.0.1:8080", http)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{guide}: {ended.stderr}"


@pytest.mark.parametrize("path", [p for p in ROOT.rglob("*.md") if ".venv" not in p.parts], ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path}: {target}"
