import subprocess
import sys
from types import ModuleType

import headrace.bulk
from headrace import errors


def test_every_exported_name_is_there_and_none_is_forgotten() -> None:
    public = {
        name
        for name, value in vars(headrace.bulk).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(headrace.bulk.__all__)


def test_exported_names_are_sorted() -> None:
    assert headrace.bulk.__all__ == sorted(
        headrace.bulk.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )


def test_all_errors_of_bulk_jobs_are_exported() -> None:
    named = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name in named if issubclass(vars(errors)[name], errors.BulkError)} <= set(headrace.bulk.__all__)


def test_importing_it_imports_no_library_of_sources_and_sinks() -> None:
    script = "import sys, headrace.bulk, headrace.cli\nprint(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "duckdb", "lancedb", "qdrant_client", "psycopg", "torch"} & set(loaded)
