"""Writes the dashboards: `python -m ops.grafana.build`, from the top of the repository.

Knows where they are written. tests/ops/test_dashboards.py fails while what is written is not what is here.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from . import broker, fleet, jobs, workers

FOLDER = Path(__file__).parent / "dashboards"


def files() -> Mapping[str, str]:
    """From the name of a file to what belongs in it."""
    return {
        f"{each.uid}.json": json.dumps(each.to_json(), indent=2, ensure_ascii=False) + "\n"
        for each in (fleet.DASHBOARD, workers.DASHBOARD, jobs.DASHBOARD, broker.DASHBOARD)
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text)
