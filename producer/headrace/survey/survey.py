"""A survey: what a fleet was at a moment.

Pure. Knows what follows from the parts together. Does not know how they are read: surveyor.py does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace_contracts import ModelSpec

from headrace.survey.broker import Account, Broker
from headrace.survey.crew import Crew
from headrace.survey.dead_letters import DeadCount
from headrace.survey.jobs import Job
from headrace.survey.parts import Part
from headrace.survey.queues import Queue
from headrace.survey.servers import Server
from headrace.survey.streams import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A fleet at a moment. A part that could not be read is None, and `missing` says why.

    Attributes:
        taken_s: when it was complete, unix time.
        took_s: seconds that it took.
        broker: the server that answered.
        account: what JetStream holds.
        streams: NATS streams of the fleet, by name.
        silent_streams: names of those that no server answers for.
        queues: of each model and class, as far as their NATS streams answered.
        models: that are published, by name.
        crews: workers of each model that is published, has a queue or has workers.
        dead_letters: of each model and class that has some.
        jobs: bulk jobs, newest first.
        servers: of the broker, where their monitoring is known.
        missing: why a part is missing, or not whole, for those that are.
    """

    taken_s: float
    took_s: float
    broker: Broker | None = None
    account: Account | None = None
    streams: Mapping[str, Stream] | None = None
    silent_streams: tuple[str, ...] = ()
    queues: tuple[Queue, ...] | None = None
    models: tuple[ModelSpec, ...] | None = None
    crews: Mapping[str, Crew] | None = None
    dead_letters: tuple[DeadCount, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    servers: tuple[Server, ...] = ()
    missing: Mapping[Part, str] = field(default_factory=dict)

    def backlog_s(self, queue: Queue) -> float | None:
        """Seconds that a queue's workers need for all of it, by its tokens; see Crew.seconds_for.

        None also where it was not heard who works for the model.
        """
        if self.crews is None:
            return None
        return self.crews.get(queue.model, Crew()).seconds_for(queue.num_tokens)
