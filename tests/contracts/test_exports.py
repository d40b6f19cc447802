import subprocess
import sys
from types import ModuleType

import headrace_contracts


def test_every_exported_name_is_there_and_none_is_forgotten() -> None:
    public = {
        name
        for name, value in vars(headrace_contracts).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(headrace_contracts.__all__)


def test_exported_names_are_sorted() -> None:
    assert headrace_contracts.__all__ == sorted(headrace_contracts.__all__, key=lambda name: (not name.isupper(), name))


def test_the_contract_needs_neither_nats_nor_the_other_components() -> None:
    script = (
        "import sys, headrace_contracts, headrace_contracts.topology, headrace_contracts.limits\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"nats", "torch", "tokenizers", "headrace", "headrace_engine", "headrace_workers"} & set(loaded)
