"""Who may do what in the broker: roles, as the subjects that each may publish and subscribe.

Pure. Knows each role's work and the JetStream API calls that it takes; ops/decisions/0035 says why none has more. Does
not know users' keys (credentials.py), nor how nats-server spells a permission.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal, TypeAlias, get_args

from headrace_contracts import subjects, topology
from headrace_contracts.errors import InvalidName

Role: TypeAlias = Literal["query", "bulk", "worker", "operator", "monitor"]
ROLES: tuple[Role, ...] = get_args(Role)
# Their rights are on NATS streams of a model, whose names a wildcard cannot stand for a part of.
OF_A_MODEL: frozenset[Role] = frozenset({"bulk", "worker"})

_MODELS = f"KV_{topology.MODELS_BUCKET}"
_JOBS = f"KV_{topology.JOBS_BUCKET}"
_TOKENIZERS = f"OBJ_{topology.TOKENIZERS_BUCKET}"
_RESULTS = topology.RESULTS_STREAM
_DEAD = topology.DEAD_STREAM
_CONSUMER = topology.CONSUMER
_ANY = "*"
_SERVICE = "headrace-worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a role is for.

    Attributes:
        models: names; none is all, for roles that can have all.
        shards: of the online queues of each.
        queues: of each shard.
        may_provision: a worker or bulk job may also create what is not there. Whoever may create a NATS stream may have
            it keep what others say to each other, so leave this to `headrace provision`.
    """

    models: tuple[str, ...] = ()
    shards: int = 1
    queues: int = 4
    may_provision: bool = False

    def __post_init__(self) -> None:
        for model in self.models:
            subjects.model_name(model)
        for name in ("shards", "queues"):
            if getattr(self, name) < 1:
                raise InvalidName(f"{name} is {getattr(self, name)}: it must be at least 1")

    def online(self) -> Iterator[str]:
        """Names of the online NATS streams."""
        for each in product(self.models, range(self.shards), range(self.queues)):
            yield subjects.online_stream(*each)

    def work(self) -> Iterator[str]:
        """Names of the NATS streams of work."""
        yield from self.online()
        yield from map(subjects.batch_stream, self.models)


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects, with wildcards; what is in neither is refused."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permissions(role: Role, user: str, scope: Scope) -> Permissions:
    """What a user of a role may do.

    Args:
        role: which.
        user: its name: all it hears comes under hr.inbox.<user>. Nobody has _INBOX, where all would hear all.
        scope: for which models.

    Raises:
        InvalidName: the user's name is no token, or the role needs models.
    """
    if role in OF_A_MODEL and not scope.models:
        raise InvalidName(f"role {role} is for certain models: name them, as with --model {user}-model")
    inbox = f"{subjects.INBOX_ROOT}.{subjects.token(user, 'user')}.>"
    return Permissions(publish=tuple(dict.fromkeys(_PUBLISH[role](scope))), subscribe=(inbox, *_SUBSCRIBE[role](scope)))


def roles_that_may(action: Literal["publish", "subscribe"], subject: str) -> tuple[Role, ...]:
    """The roles that may do it, for some model; inboxes are each user's own and count for nobody."""
    return tuple(role for role in ROLES if any(each.fullmatch(subject) for each in _patterns(role, action)))


@lru_cache
def _patterns(role: Role, action: Literal["publish", "subscribe"]) -> tuple["re.Pattern[str]", ...]:
    """Each permission of a role for any model, any case: nats-py makes the server's words small."""
    model = "any-model"
    granted = permissions(role, "nobody", Scope(models=(model,), may_provision=True))
    found = granted.publish if action == "publish" else granted.subscribe[1:]
    tokens = {r"\*": "[^.]+", ">": ".+", re.escape(model): "[^.]+"}
    patterns = []
    for each in found:
        text = re.escape(each)
        for old, new in tokens.items():
            text = text.replace(old, new)
        # Of any shard and queue.
        patterns.append(re.compile(re.sub(r"_\d+_\d+", r"_\\d+_\\d+", text), re.IGNORECASE))
    return tuple(patterns)


def _query(scope: Scope) -> Iterator[str]:
    yield from _reading_models()
    for model in scope.models or (_ANY,):
        yield from (f"hr.online.{model}.*.*", f"hr.batch.{model}.*", f"hr.cancel.{model}")


def _bulk(scope: Scope) -> Iterator[str]:
    yield from _reading_models()
    yield from _reading_jobs()
    yield f"$KV.{topology.JOBS_BUCKET}.>"
    for model in scope.models:
        yield f"hr.batch.{model}.*.*"
        yield from _api(subjects.batch_stream(model), "STREAM.INFO", "STREAM.PURGE")
        yield from _of_consumers(subjects.batch_stream(model), topology.CONSUMER, "INFO")
    yield from _api(_RESULTS, "STREAM.INFO", "STREAM.PURGE", "CONSUMER.NAMES")
    yield f"$JS.API.CONSUMER.CREATE.{_RESULTS}.*.hr.results.*.*"
    yield from _of_consumers(_RESULTS, _ANY, "DELETE", "INFO", "MSG.NEXT")
    yield from _acks(_RESULTS, _ANY)
    if scope.may_provision:
        yield f"$JS.API.STREAM.CREATE.{_JOBS}"


def _worker(scope: Scope) -> Iterator[str]:
    yield "$JS.API.INFO"
    yield from _reading_models()
    for model in scope.models:
        yield from (f"hr.fleet.{model}", f"hr.dead.{model}.*", f"$KV.{topology.MODELS_BUCKET}.{model}")
    # Answers go where a chunk says; a header that says anything else is refused by the worker.
    yield from (f"{subjects.INBOX_ROOT}.>", f"{subjects.RESULTS_ROOT}.*.*")
    yield from (f"$O.{topology.TOKENIZERS_BUCKET}.C.*", f"$O.{topology.TOKENIZERS_BUCKET}.M.*")
    for stream in scope.work():
        yield f"$JS.API.STREAM.INFO.{stream}"
        yield from _of_consumers(stream, _CONSUMER, "INFO", "MSG.NEXT")
        yield from _acks(stream, _CONSUMER)
    for stream in (_RESULTS, _DEAD):
        yield f"$JS.API.STREAM.INFO.{stream}"
    # They lie in memory: a server that starts again has lost them, and queries cannot wait for a person.
    for stream in scope.online():
        yield from _api(stream, "STREAM.CREATE", "STREAM.UPDATE")
        yield from _of_consumers(stream, _CONSUMER, "CREATE")
    if scope.may_provision:
        for stream in (*map(subjects.batch_stream, scope.models), _RESULTS, _DEAD, _MODELS, _TOKENIZERS):
            yield f"$JS.API.STREAM.CREATE.{stream}"
        for model in scope.models:
            yield from _of_consumers(subjects.batch_stream(model), _CONSUMER, "CREATE")


def _operator(scope: Scope) -> Iterator[str]:
    yield from _monitor(scope)
    yield from (f"$KV.{topology.JOBS_BUCKET}.>", f"$KV.{topology.MODELS_BUCKET}.*")
    # Dead letters are read, run again where they came from, and forgotten.
    yield from ("hr.online.*.*.*", "hr.batch.*.*", "hr.batch.*.*.*")
    yield from _api(_DEAD, "CONSUMER.CREATE", "STREAM.MSG.GET", "STREAM.MSG.DELETE")
    yield f"$JS.API.CONSUMER.CREATE.{_DEAD}.>"
    yield from _of_consumers(_DEAD, _ANY, "MSG.NEXT")
    yield from _api(_ANY, "STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE")
    yield from _of_consumers(_ANY, _ANY, "DELETE")
    yield from _of_consumers(_ANY, _CONSUMER, "CREATE")
    yield f"$JS.API.CONSUMER.CREATE.*.{_CONSUMER}.>"
    yield "hr.control.*.*"


def _monitor(_: Scope) -> Iterator[str]:
    yield from ("$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES")
    yield from _api(_ANY, "STREAM.INFO", "CONSUMER.NAMES", "CONSUMER.LIST")
    yield from _of_consumers(_ANY, _ANY, "INFO")
    yield from _reading_models()
    yield from _reading_jobs()
    yield from _services()
    yield "hr.control.*.status"


def _services() -> Iterator[str]:
    """Who is there and how it does (nats-server ADR-32)."""
    yield from ("$SRV.*", f"$SRV.*.{_SERVICE}", f"$SRV.*.{_SERVICE}.*")


def _reading_models() -> Iterator[str]:
    """ModelSpecs and tokenizers, message by message: whoever may create a consumer names where the server sends to."""
    for stream in (_MODELS, _TOKENIZERS):
        yield from _api(stream, "STREAM.INFO", "STREAM.MSG.GET")


def _reading_jobs() -> Iterator[str]:
    """Records of bulk jobs, as they change."""
    yield from _api(_JOBS, "STREAM.INFO", "STREAM.MSG.GET", "CONSUMER.CREATE")
    yield from _of_consumers(_JOBS, _ANY, "DELETE")


def _api(stream: str, *calls: str) -> Iterator[str]:
    for call in calls:
        yield f"$JS.API.{call}.{stream}"


def _of_consumers(stream: str, consumer: str, *calls: str) -> Iterator[str]:
    for call in calls:
        yield f"$JS.API.CONSUMER.{call}.{stream}.{consumer}"


def _acks(stream: str, consumer: str) -> Iterator[str]:
    """Acks, in both spellings: newer servers may put domain and account before the name (ADR-15 of NATS)."""
    yield from (f"$JS.ACK.{stream}.{consumer}.>", f"$JS.ACK.*.*.{stream}.{consumer}.>")


def _hears_nothing_more(_: Scope) -> Iterator[str]:
    yield from ()


def _worker_hears(scope: Scope) -> Iterator[str]:
    for model in scope.models:
        yield from (f"hr.cancel.{model}", f"hr.fleet.{model}")
    yield "hr.control.*.*"
    yield from _services()


def _fleet(_: Scope) -> Iterator[str]:
    """Who works for which model, and how fast: a gateway is ready only while somebody does."""
    yield subjects.FLEET_ALL


_PUBLISH: dict[Role, Callable[[Scope], Iterator[str]]] = {
    "query": _query,
    "bulk": _bulk,
    "worker": _worker,
    "operator": _operator,
    "monitor": _monitor,
}
_SUBSCRIBE: dict[Role, Callable[[Scope], Iterator[str]]] = {
    "query": _fleet,
    "bulk": _hears_nothing_more,
    "worker": _worker_hears,
    "operator": _fleet,
    "monitor": _fleet,
}
