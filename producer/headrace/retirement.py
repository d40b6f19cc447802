"""The end of a model: its ModelSpec and its queues are removed once nobody needs them any more.

Knows what stands in the way, and in which order things go. Does not know how a survey is taken, nor flags. The
tokenizer stays in the object store: it is kept by its hash, and other models may have the same.
"""

from collections.abc import Sequence

from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from headrace_contracts.control import Status
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from headrace.bulk.jobs.record import FINISHED
from headrace.errors import ConnectionFailed, HeadraceError, InputError
from headrace.survey import Job, Part, Queue, Survey, take
from headrace.workforce import Workforce

# Without these nobody can tell what is in the way.
_NEEDED: tuple[Part, ...] = ("streams", "models", "fleet", "jobs")


class NotRetired(HeadraceError):
    """Raised when a model stays; the text says what is in the way, and what to do about it."""


async def retire(nats: NatsClient, model: str, *, discard: bool = False) -> list[str]:
    """Remove a model that no worker serves and nothing is queued for.

    Args:
        nats: a connection of an operator.
        model: its served name.
        discard: also where something is queued, which is thrown away.

    Returns:
        The NATS streams that were removed.

    Raises:
        InputError: there is no such model.
        NotRetired: something is in the way, and nothing was removed; or a worker started meanwhile, which makes it all
            anew.
        ConnectionFailed: nats-server does not answer; the same command goes on.
    """
    statuses, survey = await Workforce(nats).all(), await take(nats)
    check(model, survey, statuses, discard=discard)
    try:
        # First, so that no client that looks for a model finds this one.
        bucket = await nats.jetstream().key_value(topology.MODELS_BUCKET)
        await bucket.purge(model)
        removed = [name for name in _streams(model, survey) if await api(nats, f"STREAM.DELETE.{name}") is not None]
    except NotFoundError:
        raise InputError(f"no worker has ever published a model here, so there is no {model}") from None
    except (NatsError, TimeoutError) as error:
        raise ConnectionFailed(f"{model} was not removed as a whole: {error}; try again") from error
    if late := [status.worker for status in await Workforce(nats).all() if status.model == model]:
        raise NotRetired(
            f"{model} was removed, and its workers make it anew: {', '.join(late)} started meanwhile: drain them, stop "
            "their processes, and try again"
        )
    return removed


def check(model: str, survey: Survey, statuses: Sequence[Status], *, discard: bool) -> None:
    """See that nothing is in the way of a model's end.

    Args:
        model: its served name.
        survey: of the fleet.
        statuses: of all workers.
        discard: whether what is queued may be thrown away.

    Raises:
        InputError: there is no such model.
        NotRetired: something is in the way, or it cannot be told.
    """
    if unknown := [f"{part} ({survey.missing[part]})" for part in _NEEDED if part in survey.missing]:
        raise NotRetired(f"{model} stays, since not all could be seen: {', '.join(unknown)}; try again")
    published = [spec.name for spec in survey.models or ()]
    queues = [queue for queue in survey.queues or () if queue.model == model]
    if model not in published and not queues:
        raise InputError(f"there is no model {model}: the fleet has {', '.join(published) or 'none at all'}")
    reasons = [*_workers(model, survey, statuses), *_jobs(model, survey.jobs or ())]
    if not discard:
        reasons += [_queued(queue) for queue in queues if queue.num_messages]
    if reasons:
        raise NotRetired(f"{model} stays: " + "; ".join(reasons))


def _workers(model: str, survey: Survey, statuses: Sequence[Status]) -> list[str]:
    there = {status.worker: status.state for status in statuses if status.model == model}
    # Those of other languages may not be such services, but they announce themselves.
    crew = (survey.crews or {}).get(model)
    there |= {member.worker: "serving" for member in (crew.members if crew else ()) if member.worker not in there}
    if not there:
        return []
    named = ", ".join(f"{worker} ({state})" for worker, state in sorted(there.items()))
    return [f"it has workers, {named}: drain them, and stop their processes"]


def _jobs(model: str, jobs: Sequence[Job]) -> list[str]:
    waiting = [f"{job.name} ({job.state})" for job in jobs if job.model == model and job.state not in FINISHED]
    if not waiting:
        return []
    return [f"bulk jobs still need it, {', '.join(waiting)}: let them finish, or `headrace job cancel` them"]


def _queued(queue: Queue) -> str:
    chunks = f"{queue.num_messages:,} chunk{'' if queue.num_messages == 1 else 's'}"
    if queue.priority == "online":
        return f"{chunks} of online work {_waits(queue)}: they are forgotten within {topology.ONLINE_MAX_AGE_S:g} s"
    return (
        f"{chunks} of batch work {_waits(queue)}, about {queue.num_tokens:,} tokens: let a worker finish them, or"
        " throw them away by --discard"
    )


def _waits(queue: Queue) -> str:
    return "waits" if queue.num_messages == 1 else "wait"


def _streams(model: str, survey: Survey) -> list[str]:
    queues = {name: subjects.queue_of(name) for name in survey.streams or {}}
    return [name for name, queue in queues.items() if queue is not None and queue[0] == model]
