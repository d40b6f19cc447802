"""What the fleet is at a moment: its models, workers, queues, dead letters and jobs, and the broker under them.

    async with surveying(nats) as surveyor:
        survey = await surveyor.take()

Knows what can be read and heard of a fleet from outside. Does not know who shows it: the exporter, `headrace top`.
"""

from headrace.survey.broker import Account, Broker
from headrace.survey.consumers import Consumer
from headrace.survey.crew import Crew, Member
from headrace.survey.dead_letters import DeadCount
from headrace.survey.jobs import Job
from headrace.survey.parts import PARTS, Part
from headrace.survey.queues import Queue
from headrace.survey.servers import Server
from headrace.survey.streams import Replicas, Stream
from headrace.survey.survey import Survey
from headrace.survey.surveyor import Surveyor, surveying, take, without_broker

__all__ = [
    "PARTS",
    "Account",
    "Broker",
    "Consumer",
    "Crew",
    "DeadCount",
    "Job",
    "Member",
    "Part",
    "Queue",
    "Replicas",
    "Server",
    "Stream",
    "Survey",
    "Surveyor",
    "surveying",
    "take",
    "without_broker",
]
