"""Every subject, and what a name must look like to be part of one.

Knows the spelling of subjects only; what listens on them is in topology.py.
"""

import re

from headrace_contracts.control import Verb
from headrace_contracts.errors import InvalidName
from headrace_contracts.messages import Priority

INBOX_ROOT = "hr.inbox"
RESULTS_ROOT = "hr.results"
DEAD_ROOT = "hr.dead"
FLEET_ROOT = "hr.fleet"
# The workers of all models.
FLEET_ALL = f"{FLEET_ROOT}.*"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_QUEUE = re.compile(r"HR_(?:ONLINE_(.+)_[0-9]+_[0-9]+|BATCH_(.+))")
_REPLY_TO = re.compile(r"hr\.(?:inbox|results)(?:\.[A-Za-z0-9_-]{1,64}){2,6}")


def model_name(name: str) -> str:
    """Return `name` if it can name a model: it is a subject token and part of NATS stream names.

    Raises:
        InvalidName: it holds anything but lower-case letters, digits, `_` and `-`, or more than 64 of them.
    """
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"model name {name!r} will not do: use 1 to 64 of a-z, 0-9, '_' and '-', starting with a letter or digit"
        )
    return name


def token(value: str, what: str) -> str:
    """Return `value` if it can stand between two dots of a subject; `what` names it in the error.

    Raises:
        InvalidName: it is empty, too long, or holds a dot, blank, wildcard or non-ASCII character.
    """
    if not _TOKEN.fullmatch(value):
        raise InvalidName(f"{what} {value[:80]!r} will not do: use 1 to 64 of A-Z, a-z, 0-9, '_' and '-'")
    return value


def online(model: str, shard: int, queue: int) -> str:
    """Where requests that somebody waits for are published."""
    return f"hr.online.{model_name(model)}.{shard}.{queue}"


def batch(model: str, job: str, shard: int | None = None) -> str:
    """Where bulk work is published; one subject a job or shard of it, so that they can be told apart in the broker."""
    return f"hr.batch.{model_name(model)}.{token(job, 'job')}" + ("" if shard is None else f".{shard}")


def batch_of_job(model: str, job: str) -> str:
    """All shards of a bulk job."""
    return f"hr.batch.{model_name(model)}.{token(job, 'job')}.>"


def batch_all(model: str) -> str:
    """All jobs of a model."""
    return f"hr.batch.{model_name(model)}.>"


def cancel(model: str) -> str:
    """Where callers say which chunks of a model they wait for no longer; core NATS, kept by nobody."""
    return f"hr.cancel.{model_name(model)}"


def fleet(model: str) -> str:
    """Where the workers of a model say that they are there; core NATS, kept by nobody."""
    return f"{FLEET_ROOT}.{model_name(model)}"


def results(job: str, shard: int = 0) -> str:
    """Where workers publish the results of a bulk job; not one subject a document: subjects cost the broker memory."""
    return f"{RESULTS_ROOT}.{token(job, 'job')}.{shard}"


def results_of_job(job: str) -> str:
    """All results of a bulk job."""
    return f"{RESULTS_ROOT}.{token(job, 'job')}.>"


def dead(model: str, priority: Priority) -> str:
    """Where chunks go that no worker can run."""
    return f"{DEAD_ROOT}.{model_name(model)}.{priority}"


def control(worker: str, verb: Verb) -> str:
    """Where one worker is told something, or asked for its status."""
    return f"hr.control.{token(worker, 'worker')}.{verb}"


def inbox(client: str, user: str | None = None) -> str:
    """Prefix of one client's inboxes; under access control they lie under the user's, for which rules are written."""
    own = token(client, "client")
    return f"{INBOX_ROOT}.{own}" if user is None else f"{INBOX_ROOT}.{token(user, 'user')}.{own}"


def is_reply_to(subject: str) -> bool:
    """Whether a worker may answer on `subject`: an inbox or a results subject, so no header can aim it elsewhere."""
    return _REPLY_TO.fullmatch(subject) is not None


def online_stream(model: str, shard: int, queue: int) -> str:
    """Name of the NATS stream behind `online`."""
    return f"HR_ONLINE_{model_name(model)}_{shard}_{queue}"


def batch_stream(model: str) -> str:
    """Name of the NATS stream behind `batch`."""
    return f"HR_BATCH_{model_name(model)}"


def queue_of(stream: str) -> tuple[str, Priority] | None:
    """Whose queue a NATS stream is, by its name: model and class; None where it is none."""
    found = _QUEUE.fullmatch(stream)
    if found is None:
        return None
    return (found[1], "online") if found[1] else (found[2], "batch")
