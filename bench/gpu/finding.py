"""What the stages say, and how it goes from one process to another: a line of JSON each.

It knows fields and units. It does not know how anything was found, nor how a table looks.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from timing import Spread

Outcome = Literal["passed", "failed", "skipped", "noted"]


@dataclass(frozen=True, slots=True)
class Where:
    """What was being looked at.

    Attributes:
        stage: Which stage.
        backend: The attention backend.
        model: The model; empty where it is about all.
    """

    stage: str
    backend: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether something is so.

    Attributes:
        where: What was looked at.
        what: What should be so.
        outcome: "noted" is for what is good to know and no failure either way.
        detail: By how much, or why not.
        far: How far off the farthest was, where that is a number.
    """

    where: Where
    what: str
    outcome: Outcome
    detail: str = ""
    far: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Steps of one batch, one at a time.

    Attributes:
        where: What was run.
        batch: Its name.
        tokens: Its tokens.
        is_graph: Whether each step replayed a graph.
        step: From the ids, packed within, to the rows in NumPy.
        launch_ms: Until the step returned, without waiting: the median.
        flop: See `floor.Work`.
        num_bytes: The same.
        floor_ms: What no step can beat; None where that was not measured.
    """

    where: Where
    batch: str
    tokens: int
    is_graph: bool
    step: Spread
    launch_ms: float
    flop: float
    num_bytes: float
    floor_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One graph.

    Attributes:
        where: What was captured.
        tokens: Of its key.
        sequences: Of its key.
        capture_ms: How long the device and the host were busy with it.
        pool_bytes: As the engine counts them.
        driver_bytes: What the device lost besides what torch's allocator took.
    """

    where: Where
    tokens: int
    sequences: int
    capture_ms: float
    pool_bytes: int
    driver_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost:
    """What the parts of a step before the model cost the host, medians in milliseconds.

    Attributes:
        where: What was run.
        batch: Its name.
        pack_ms: Making the batch.
        pad_ms: Padding it to its graph's sizes; None where it has no graph.
        upload_ms: Queueing its copy to the device; None where there is none.
    """

    where: Where
    batch: str
    pack_ms: float
    pad_ms: float | None
    upload_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Memory over many shapes.

    Attributes:
        where: What was run.
        shapes: How many.
        captures: Graphs captured meanwhile.
        evictions: Graphs released meanwhile.
        samples: Each [shapes so far, bytes reserved by torch, bytes of the device used].
    """

    where: Where
    shapes: int
    captures: int
    evictions: int
    samples: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Batches one after the other, two in flight, by several processes on one device.

    Attributes:
        where: What was run.
        batch: The batch of each.
        processes: How many processes.
        is_graph: Whether graphs were allowed for batches of that size.
        batches_per_s: Of all together.
        texts_per_s: The same.
        tokens_per_s: The same.
        flop: Of one batch.
        num_bytes: Of one batch.
        share: Of what the floor allows; None where that was not measured.
    """

    where: Where
    batch: str
    processes: int
    is_graph: bool
    batches_per_s: float
    texts_per_s: float
    tokens_per_s: float
    flop: float
    num_bytes: float
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """A process has compiled what it needs and takes commands.

    Attributes:
        models: Those that its backend can run.
    """

    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A process waits for a word, so that several begin together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """What one process did of a bulk.

    Attributes:
        is_graph: Whether each batch replayed a graph.
        began_s: On the clock that all processes of a machine share.
        ended_s: The same.
        batches: How many were done.
    """

    is_graph: bool
    began_s: float
    ended_s: float
    batches: int


@dataclass(frozen=True, slots=True)
class Done:
    """A process is through with its stage."""


Finding: TypeAlias = Check | Timing | Capture | HostCost | MemoryUse | Bulk
Message: TypeAlias = Finding | Ready | Barrier | Stint | Done

_KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Check, Timing, Capture, HostCost, MemoryUse, Bulk, Ready, Barrier, Stint, Done)
}


def as_values(message: Message) -> dict[str, Any]:
    """As JSON takes it."""
    return {"kind": type(message).__name__, **asdict(message)}


def to_line(message: Message) -> str:
    """One line, without its end."""
    return json.dumps(as_values(message))


def from_line(line: str) -> Message:
    """What `to_line` wrote.

    Raises:
        ValueError: It did not write this.
    """
    values = json.loads(line)
    try:
        kind = _KINDS[values.pop("kind")]
        message: Message = kind(**{field: _read(field, value) for field, value in values.items()})
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(line) from error
    return message


def _read(field: str, value: Any) -> Any:
    match field:
        case "where":
            return Where(**value)
        case "step":
            return Spread(**value)
        case "samples":
            return tuple(map(tuple, value))
        case "models":
            return tuple(value)
        case _:
            return value
