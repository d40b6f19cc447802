"""What a process says of itself on its page for Prometheus.

It knows the text format, through Prometheus' own parser. It does not know whose page it reads.
"""

import asyncio
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        num_series: Lines with a value.
        sums: Of all series of a name, by the name of its samples.
        facts: Labels of the series that says what the process is, by its name, such as `…_info`.
    """

    num_series: int
    sums: Mapping[str, float]
    facts: Mapping[str, Mapping[str, str]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read one."""
        sums: dict[str, float] = {}
        facts: dict[str, Mapping[str, str]] = {}
        num = 0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                num += 1
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
                if sample.name.endswith("_info"):
                    facts[sample.name] = sample.labels
        return cls(num, sums, facts)

    def reconnects(self) -> float:
        """How often the process had to find its broker again."""
        return sum(value for name, value in self.sums.items() if name.endswith("_reconnects_total"))


async def fetch(address: str) -> Page:
    """Ask for the page of a process at host:port.

    Raises:
        OSError: It does not answer.
    """

    def ask() -> bytes:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_TIMEOUT_S) as answer:
            found: bytes = answer.read()
        return found

    return Page.parse((await asyncio.to_thread(ask)).decode())
