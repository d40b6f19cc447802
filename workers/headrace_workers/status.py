"""What a worker says of itself to whoever asks.

Knows where in a worker to read it off; for the event loop. Does not know who asks (control.py).
"""

from headrace_contracts import VERSION, Priority
from headrace_contracts.control import ClassStatus, Status, Totals

from headrace_workers.counters import Counters
from headrace_workers.reading import ClassReading
from headrace_workers.worker import Worker


def status(worker: Worker, *, name: str, version: str, uptime_s: float) -> Status:
    """The status of a worker now.

    Args:
        worker: whose.
        name: of the worker.
        version: of its software.
        uptime_s: since it began to serve.
    """
    reading, engine = worker.reading(), worker.lane.engine
    classes: dict[Priority, ClassStatus] = {priority: _of_class(found) for priority, found in reading.classes.items()}
    return Status(
        v=VERSION,
        worker=name,
        model=worker.spec.name,
        fingerprint=worker.spec.fingerprint,
        state=worker.state,
        waits_for=waits_for(worker),
        version=version,
        device=str(engine.device),
        dtype=str(engine.dtype).removeprefix("torch."),
        uptime_s=round(uptime_s, 3),
        rate=reading.tokens_per_s or 0,
        step_tokens=reading.step_budget_tokens,
        steps_in_flight=reading.steps_in_flight,
        held_chunks=worker.num_held,
        held_tokens=worker.counters.held_tokens,
        online=classes["online"],
        batch=classes["batch"],
        totals=_totals(worker.counters),
    )


def waits_for(worker: Worker) -> str:
    """What a worker that drains still waits for, in words; empty where there is nothing."""
    if worker.state != "draining":
        return ""
    parts = []
    if pulls := worker.num_open_pulls:
        parts.append(f"the end of {pulls} open pull{'' if pulls == 1 else 's'}")
    if held := worker.num_held:
        parts.append(f"{held} chunk{'' if held == 1 else 's'} in hand")
    if kept := worker.num_without_room:
        parts.append(f"room in HR_RESULTS for {kept} of their results, which bulk jobs make as they write")
    return ", ".join(parts)


def _of_class(found: ClassReading) -> ClassStatus:
    return ClassStatus(
        budget_bytes=found.budget_bytes,
        credit_bytes=found.credit_bytes,
        held_bytes=found.held_bytes,
        queued_chunks=found.queue_chunks,
        queued_tokens=found.queue_tokens,
        oldest_s=round(found.queue_oldest_s, 3),
    )


def _totals(counters: Counters) -> Totals:
    return Totals(
        delivered=counters.delivered,
        answered=counters.answered,
        refused=counters.refused,
        expired=counters.expired,
        cancelled=counters.cancelled,
        dead_lettered=counters.dead_lettered,
        given_back=counters.given_back,
        steps=counters.steps,
        failed_steps=counters.failed_steps,
        tokens=counters.tokens,
    )
