from typing import Any

from headrace.survey.consumers import Consumer
from headrace.survey.queues import Queue, queues
from headrace.survey.streams import Replicas, Stream


def stream(name: str, **changes: Any) -> Stream:
    fields: dict[str, Any] = {"num_messages": 2, "num_bytes": 1000, "max_bytes": 4000, "oldest_s": 1.0}
    return Stream(name=name, last_seq=0, created="", replicas=Replicas(1), **{**fields, **changes})


def test_an_online_queue_is_all_its_shards_and_tenants_queues_together() -> None:
    streams = [stream("HR_ONLINE_my_model_0_0"), stream("HR_ONLINE_my_model_1_3", oldest_s=7.0), stream("HR_DEAD")]
    consumers = {each.name: Consumer(1, 2, 3, 4) for each in streams}
    assert queues(streams, consumers) == (
        Queue(
            model="my_model",
            priority="online",
            num_messages=4,
            num_bytes=2000,
            max_bytes=8000,
            oldest_s=7.0,
            consumer=Consumer(2, 4, 6, 8),
        ),
    )


def test_what_was_not_read_of_one_consumer_is_said_of_none() -> None:
    streams = [stream("HR_ONLINE_m_0_0"), stream("HR_ONLINE_m_1_0"), stream("HR_BATCH_m", max_bytes=None)]
    batch, online = queues(streams, {"HR_ONLINE_m_0_0": Consumer(1, 1, 1, 1), "HR_BATCH_m": Consumer()})
    assert (batch.priority, batch.consumer, batch.max_bytes) == ("batch", Consumer(), None)
    assert (online.priority, online.consumer, online.max_bytes) == ("online", None, 8000)
