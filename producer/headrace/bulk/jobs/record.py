"""What is remembered of a bulk job and of each of its shards, and how it is written down.

Pure: the KV bucket is store.py's. A job's record says what it does and whether it should; a shard's says who works on
it and how far it is. Reading is strict, so that nothing is continued by half-understood state.
"""

import json
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self, TypeAlias, get_args

from headrace.bulk.card import Card
from headrace.bulk.cut import Cut, Span, Spans
from headrace.errors import BulkError, CardMismatch, JobConflict

State: TypeAlias = Literal["running", "paused", "cancelled", "done", "failed"]
Option: TypeAlias = str | int | bool | None

FINISHED: frozenset[State] = frozenset({"cancelled", "done", "failed"})

# The option that says whether the sink had rows when the job began, which may be unchanged. Whoever begins it decides:
# later on the sink has what the job itself has written.
LOOKS_UP = "looks_up"

_VERSION = 1
_STATES: frozenset[str] = frozenset(get_args(State))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One bulk job.

    Attributes:
        name: of the job; a token of the wire contract.
        source: the corpus, as it was named when the job began.
        sink: where vectors go, without passwords.
        card: what the vectors are.
        cut: how shards are cut into windows.
        corpus: hash over the names and states of all shards, so another one when a file came, went or changed.
        num_shards: of the corpus.
        num_rows: of the corpus; None where it is not known.
        options: all else that decides what is sent and written, such as the column of the texts.
        state: whether processes should work on it.
        reason: why it is in that state, for people.
        created_ms: unix time; tells apart a job from an earlier one of its name.
        changed_ms: unix time of the last change of `state`.
    """

    name: str
    source: str
    sink: str
    card: Card
    cut: Cut
    corpus: str
    num_shards: int
    num_rows: int | None
    options: Mapping[str, Option]
    state: State
    reason: str | None
    created_ms: int
    changed_ms: int

    def differences(self, other: "JobRecord") -> list[str]:
        """What keeps `other` from being the same work as this job: one sentence each, none if it is.

        How the source is spelt may differ: the corpus says whether it is the same. So may what was decided by whoever
        began the job.
        """
        names = dict.fromkeys((*self.options, *other.options))
        names.pop(LOOKS_UP, None)
        pairs: list[tuple[str, object, object]] = [
            ("sink", self.sink, other.sink),
            ("corpus", self.corpus, other.corpus),
            ("num_shards", self.num_shards, other.num_shards),
            *((f"cut.{name}", has, getattr(other.cut, name)) for name, has in asdict(self.cut).items()),
            *((name, self.options.get(name), other.options.get(name)) for name in names),
        ]
        found = [
            f"{name} is {has!r}, this command has {wants!r}"
            for name, has, wants in pairs
            if (type(has), has) != (type(wants), wants)
        ]
        try:
            other.card.check(self.card, "it")
        except CardMismatch:
            found += [
                f"card.{name} is {has!r}, this command has {wants!r}"
                for name, has in asdict(self.card).items()
                if has != (wants := getattr(other.card, name))
            ]
        return found

    def to_json(self) -> bytes:
        """Write it down."""
        return json.dumps({"v": _VERSION, **asdict(self), "options": dict(self.options)}).encode()

    @classmethod
    def from_json(cls, written: bytes) -> Self:
        """Read it.

        Raises:
            JobConflict: it is none, or one of a later version.
        """
        with _Reading("a job", written) as found:
            cut = found.part("cut", {"rows", "characters"})
            job = cls(
                name=found.take("name", str),
                source=found.take("source", str),
                sink=found.take("sink", str),
                card=_card(found.take("card", dict)),
                cut=Cut(rows=cut.count("rows"), characters=cut.count("characters")),
                corpus=found.take("corpus", str),
                num_shards=found.count("num_shards"),
                num_rows=found.count_or_none("num_rows"),
                options=_options(found.take("options", dict)),
                state=_state(found.take("state", str)),
                reason=found.take_or_none("reason", str),
                created_ms=found.count("created_ms"),
                changed_ms=found.count("changed_ms"),
            )
            found.check_all_read()
            return job


@dataclass(frozen=True, slots=True)
class Tally:
    """What was done, in numbers.

    Attributes:
        rows: read.
        written: rows whose vector is new in the sink.
        unchanged: rows whose vector was there already.
        failed: rows without a vector.
        tokens: computed by the fleet.
        retried: chunks that were sent again.
    """

    rows: int = 0
    written: int = 0
    unchanged: int = 0
    failed: int = 0
    tokens: int = 0
    retried: int = 0

    @classmethod
    def sum(cls, tallies: "Iterable[Tally]") -> "Tally":
        """All of them together."""
        total = cls()
        for tally in tallies:
            total = total.plus(tally)
        return total

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def minus(self, other: "Tally") -> "Tally":
        """Without what turned out not to be done; never below zero."""
        return Tally(*(max(0, getattr(self, each.name) - getattr(other, each.name)) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a shard is.

    Attributes:
        spans: its windows that are in the sink.
        tally: what was done for them.
        is_done: whether these are all of its windows.
    """

    spans: Spans = field(default_factory=Spans)
    tally: Tally = field(default_factory=Tally)
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that works on a shard.

    Attributes:
        process: a random token; no two processes have the same, ever.
        host: name of its machine, for people.
        pid: its number there.
        system: which run of which operating system, and which of its containers, `pid` counts in; None if unknown.
        started: when it started, in a unit of that system; tells it from a later process of that number.
    """

    process: str
    host: str
    pid: int
    system: str | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """Who works on a shard, and how far it is.

    Attributes:
        shard: its number.
        owner: who works on it; None if nobody does.
        beat: goes up while the owner lives.
        checkpoint: how far it is.
        term: goes up with each claim, so that a process can tell one claim of its own from an earlier one.
        job_ms: created_ms of the job; records of an earlier job of the same name say nothing of this one.
        written_ms: when the broker stored it, unix time by its clock, where that is known; it is not written down.
    """

    shard: int
    owner: Owner | None
    beat: int
    checkpoint: Checkpoint
    term: int = 0
    job_ms: int = 0
    written_ms: int = field(default=0, compare=False)

    def to_json(self) -> bytes:
        """Write it down."""
        point = self.checkpoint
        spans = [[each.window, each.end_window, each.row, each.end_row] for each in point.spans.spans]
        owner = None if self.owner is None else asdict(self.owner)
        return json.dumps(
            {
                "v": _VERSION,
                "job_ms": self.job_ms,
                "shard": self.shard,
                "owner": owner,
                "term": self.term,
                "beat": self.beat,
                "spans": spans,
                "tally": asdict(point.tally),
                "done": point.is_done,
            }
        ).encode()

    @classmethod
    def from_json(cls, written: bytes) -> Self:
        """Read it.

        Raises:
            JobConflict: it is none, or one of a later version.
        """
        with _Reading("a shard", written) as found:
            tally = found.part("tally", {each.name for each in fields(Tally)})
            record = cls(
                shard=found.count("shard"),
                owner=_owner(found),
                beat=found.count("beat"),
                checkpoint=Checkpoint(
                    spans=_spans(found.take("spans", list)),
                    tally=Tally(**{each.name: tally.count(each.name) for each in fields(Tally)}),
                    is_done=found.take("done", bool),
                ),
                term=found.count("term"),
                job_ms=found.count("job_ms"),
            )
            found.check_all_read()
            return record


class _Wrong(ValueError):
    """Raised inside this module when a record is none."""


@dataclass(frozen=True, slots=True)
class _Map:
    """A JSON object that is read field by field."""

    found: dict[str, Any]
    read: set[str] = field(default_factory=set)

    def take(self, name: str, kind: type) -> Any:
        """The field, if it is exactly of that type: true is no number."""
        self.read.add(name)
        value = self.found.get(name)
        if type(value) is not kind:
            raise _Wrong(f"{name} is {_shown(value)}, not of type {kind.__name__}")
        return value

    def take_or_none(self, name: str, kind: type) -> Any:
        self.read.add(name)
        return None if name in self.found and self.found[name] is None else self.take(name, kind)

    def count(self, name: str) -> int:
        value: int = self.take(name, int)
        if value < 0:
            raise _Wrong(f"{name} is {value}, below 0")
        return value

    def count_or_none(self, name: str) -> int | None:
        self.read.add(name)
        return None if name in self.found and self.found[name] is None else self.count(name)

    def part(self, name: str, names: set[str]) -> "_Map":
        """A JSON object inside it, of just these fields."""
        part = _Map(self.take(name, dict))
        if part.found.keys() != names:
            raise _Wrong(f"{name} has the fields {sorted(part.found)}, not {sorted(names)}")
        return part

    def check_all_read(self) -> None:
        if unknown := self.found.keys() - self.read - {"v"}:
            raise _Wrong(f"it has the unknown fields {sorted(unknown)}")


class _Reading:
    """Reads one record, and says of any mistake in it what can be done."""

    def __init__(self, what: str, written: bytes) -> None:
        self._what = what
        self._written = written

    def __enter__(self) -> _Map:
        try:
            return self._map()
        except (ValueError, RecursionError) as error:
            raise self._conflict(error) from error

    def _map(self) -> _Map:
        found = json.loads(self._written)
        if type(found) is not dict:
            raise _Wrong(f"it is {_shown(found)}, not an object")
        if found.get("v") != _VERSION or type(found.get("v")) is not int:
            raise _Wrong(f"v is {_shown(found.get('v'))}, and this headrace knows {_VERSION}")
        return _Map(found)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _Wrong | BulkError):
            raise self._conflict(error) from error

    def _conflict(self, error: Exception) -> JobConflict:
        return JobConflict(
            f"the record of {self._what} in the KV bucket hr_jobs cannot be read: {error}. If a newer headrace wrote "
            "it, use that one; else forget the job with `headrace job rm NAME`"
        )


def _shown(value: object) -> str:
    # Not repr, which goes as deep as the value does: as deep as it could just be read, and not be shown.
    return reprlib.repr(value)[:80]


def _card(found: dict[str, Any]) -> Card:
    types: dict[str, type] = {"dim": int, "max_length": int, "normalize": bool}
    card = _Map(found)
    read = {each.name: card.take(each.name, types.get(each.name, str)) for each in fields(Card)}
    card.check_all_read()
    return Card(**read)


def _options(found: dict[str, Any]) -> Mapping[str, Option]:
    for name, value in found.items():
        if value is not None and type(value) not in {str, int, bool}:
            raise _Wrong(f"option {name} is {_shown(value)}, not a string, number, boolean or null")
    return found


def _state(found: str) -> State:
    if found not in _STATES:
        raise _Wrong(f"state is {_shown(found)}, not one of {', '.join(sorted(_STATES))}")
    return found  # type: ignore[return-value] # mypy does not narrow a string by a set


def _owner(record: _Map) -> Owner | None:
    if record.take_or_none("owner", dict) is None:
        return None
    owner = record.part("owner", {each.name for each in fields(Owner)})
    return Owner(
        owner.take("process", str),
        owner.take("host", str),
        owner.count("pid"),
        owner.take_or_none("system", str),
        owner.count_or_none("started"),
    )


def _spans(found: list[Any]) -> Spans:
    spans: list[Span] = []
    for each in found:
        if type(each) is not list or len(each) != 4 or not all(type(number) is int for number in each):
            raise _Wrong(f"a span is {_shown(each)}, not four numbers")
        span = Span(*each)
        if not (0 <= span.window < span.end_window and 0 <= span.row <= span.end_row):
            raise _Wrong(f"a span is {_shown(each)}, which does not run forwards")
        if spans and span.window < spans[-1].end_window:
            raise _Wrong(f"a span is {_shown(each)}, which overlaps the one before it")
        spans.append(span)
    return Spans.of(spans)
