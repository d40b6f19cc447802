"""The house rules that a reader may rely on."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "headrace_contracts": ROOT / "contracts" / "headrace_contracts",
    "headrace_engine": ROOT / "engine" / "headrace_engine",
    "headrace_workers": ROOT / "workers" / "headrace_workers",
    "headrace": ROOT / "producer" / "headrace",
}
MAY_IMPORT = {
    "headrace_contracts": set[str](),
    "headrace_engine": set[str](),
    "headrace_workers": {"headrace_contracts", "headrace_engine"},
    "headrace": {"headrace_contracts"},
}


def imports(path: Path) -> Iterator[str]:
    """Top-level names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_component_imports_only_what_stands_below_it(package: str) -> None:
    forbidden = PACKAGES.keys() - MAY_IMPORT[package] - {package}
    for path in PACKAGES[package].rglob("*.py"):
        assert not forbidden & set(imports(path)), path


GATEWAY = PACKAGES["headrace"] / "gateway"
EXPORTER = PACKAGES["headrace"] / "exporter"


def test_only_what_reads_a_format_knows_the_codec_library() -> None:
    knowing = {path for folder in PACKAGES.values() for path in folder.rglob("*.py") if "msgspec" in imports(path)}
    # The gateway is made of the formats of others: its JSON.
    assert {path for path in knowing if GATEWAY not in path.parents} == {
        PACKAGES["headrace_contracts"] / "codec.py",  # what goes over the wire
        PACKAGES["headrace_contracts"] / "control.py",  # and how workers are told what to do
        PACKAGES["headrace_workers"] / "calibration" / "document.py",  # a file, read as strictly
    }


def test_the_engine_knows_neither_nats_nor_asyncio() -> None:
    for path in PACKAGES["headrace_engine"].rglob("*.py"):
        assert not {"nats", "asyncio", "anyio"} & set(imports(path)), path


def test_only_the_gateway_knows_http() -> None:
    for path in PACKAGES["headrace"].rglob("*.py"):
        assert GATEWAY in path.parents or not {"litestar", "granian"} & set(imports(path)), path


def test_only_what_prometheus_scrapes_knows_its_client() -> None:
    for path in PACKAGES["headrace"].rglob("*.py"):
        assert {GATEWAY, EXPORTER} & set(path.parents) or "prometheus_client" not in imports(path), path


@pytest.mark.parametrize("module", ["headrace", "headrace.cli"])
def test_importing_the_client_or_the_command_line_never_imports_the_gateways_libraries(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'litestar', 'granian', 'prometheus_client'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "module",
    [
        "headrace",
        "headrace.cli",
        "headrace.testing",
        "headrace_workers",
        "headrace_workers.command",
        "headrace_workers.engine_command",
        "headrace_workers.calibrate_command",
    ],
)
def test_importing_the_client_or_the_command_line_never_imports_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_says_what_it_is(package: str) -> None:
    for path in PACKAGES[package].rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path


def test_the_readme_names_every_file() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    missing = [
        path.name
        for folder in PACKAGES.values()
        for path in folder.rglob("*.py")
        if path.name not in {"__init__.py", "__main__.py"} and path.name not in readme
    ]
    assert not missing
