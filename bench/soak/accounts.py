"""What workers say of all that they were handed, once nobody asks for anything and they have drained.

It knows an operator's drain, a worker's status and its page. What must hold of a ledger is survival/checker.py's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.workforce import Workforce
from headrace_contracts import connection
from survival.checker import check_ledger
from survival.ledger import Ledger

from soak import page
from soak.page import Page

_CONNECT_S = 10.0
# A pull that stands lapses within it, and a step ends.
_DRAIN_S = 60.0


class NotDrained(Exception):
    """A worker ended instead; the text says which."""


@dataclass(frozen=True, slots=True)
class Account:
    """Of one worker.

    Attributes:
        ledger: What it says when it is asked.
        page: What it shows to Prometheus.
    """

    ledger: Ledger
    page: Page

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, in sentences; none if all is well."""
        ledger = self.ledger
        told = self.page.sums["headrace_worker_chunks_total"]
        answers = ledger.settled - ledger.given_back - ledger.abandoned
        found = check_ledger(ledger)
        if told != answers:
            found.append(f"{ledger.worker} has answered {answers} chunks, and its page tells of {told:g}")
        return found


async def accounts(url: str, addresses: Sequence[str]) -> list[Account]:
    """Drain workers, and hear each.

    Args:
        url: Of nats-server.
        addresses: Of the workers' pages.

    Raises:
        NotDrained: One ended.
        HeadraceError: One does not answer.
        OSError: One does not show its page.
    """
    nats, _ = await connection.connect(url, name="bench", inbox="_INBOX.bench", timeout_s=_CONNECT_S)
    try:
        return [await _account(Workforce(nats), address) for address in addresses]
    finally:
        await nats.close()


async def _account(workforce: Workforce, address: str) -> Account:
    name = (await page.fetch(address)).facts["headrace_worker_info"]["worker"]
    status = await workforce.drained(name, _DRAIN_S)
    if status is None:
        raise NotDrained(f"{name} ended as it drained")
    found = await page.fetch(address)
    return Account(Ledger.of(status, abandoned=int(found.sums["headrace_worker_abandoned_total"])), found)
