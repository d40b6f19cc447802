"""What a gateway asks of the fleet, however many ask the gateway."""

import asyncio
from collections.abc import Sequence

from headrace import Client, local
from headrace.gateway.fleet import Fleet
from headrace.survey.presences import Presences
from headrace_contracts import ModelSpec


class Counting(Fleet):
    """Counts how often it asks the broker."""

    num_asked = 0

    async def now(self) -> Sequence[ModelSpec]:
        self.num_asked += 1
        return await super().now()


async def test_all_who_ask_at_once_whether_it_is_ready_cost_the_broker_one_reading(nats_server: local.Server) -> None:
    async with await Client.connect(nats_server.url) as client:
        fleet = Counting(client, Presences(client._nats, 0))
        for round_ in (1, 2):
            answers = await asyncio.gather(*(fleet.why_not_ready() for _ in range(50)))
            assert set(answers) == {"no worker has published a model"}
            assert fleet.num_asked == round_, "it is asked anew each time, and once"
