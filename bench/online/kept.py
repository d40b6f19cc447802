"""What is kept of a run, as a file of JSON.

It knows what all runs have in common. What a command sets besides, it says itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
from machine import Machine

from online.cores import Cores
from online.finding import Finding

SCHEMA = 1


def save(
    file: Path, machine: Machine, cores: Cores, settings: Mapping[str, object], findings: Sequence[Finding]
) -> None:
    """Write all of it; what is no number there is null."""
    content = {
        "schema": SCHEMA,
        "machine": asdict(machine),
        "cores": asdict(cores),
        **settings,
        "findings": [
            asdict(finding) | {"verdicts": [asdict(each) | {"holds": each.holds} for each in finding.verdicts]}
            for finding in findings
        ],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
