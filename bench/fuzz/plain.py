"""Inputs drawn from a seed: the same seed tries the same inputs, on any machine.

It knows how one input leads to the next, how memory is watched, and what is told of a failure. It does not know
coverage: guided.py does. As a program it is a process of a campaign: `python -m fuzz.plain '{…}'`.
"""

import json
import logging
import re
import sys
import time
import traceback
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from fuzz import corpus
from fuzz.last_words import LastWords, last_words
from fuzz.memory import limit, peak_mib
from fuzz.target import Target, Verdict, Wrong
from fuzz.targets import target as find

# One in so many inputs is read with an account of all that Python allocates, which makes it ten times slower.
_WATCHED = 500
# What reading may take: nothing much by itself, and so much for each byte. A chunk of one-byte lengths is the worst.
_FLAT_BYTES, _BYTES_EACH = 1 << 20, 256
_POOL = 512
_MOST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that broke a law.

    Attributes:
        kind: Of the exception.
        text: What it says, and where it came from.
        file: Where the input is kept.
    """

    kind: str
    text: str
    file: str


@dataclass(slots=True, kw_only=True)
class Run:
    """What came of some inputs to one target.

    Attributes:
        target: Its name.
        guided: Whether coverage decided which inputs were tried.
        inputs: How many were.
        taken: Of these, how many were what they should be; a guided run does not count them.
        refused: How many were refused by a documented error.
        seconds: It took.
        peak_mib: Most memory of the process.
        heap_bytes_each: Most bytes of Python's heap that reading took for a byte of input, beyond a flat mebibyte.
        edges: Of the code that were reached, where coverage was measured.
        failures: What broke a law; one of each place.
        kept: Files of inputs that reached something new.
    """

    target: str
    guided: bool = False
    inputs: int = 0
    taken: int | None = 0
    refused: int | None = 0
    seconds: float = 0
    peak_mib: float = 0
    heap_bytes_each: float | None = None
    edges: int | None = None
    failures: list[Failure] = field(default_factory=list)
    kept: int = 0


def first_inputs(target: Target, root: Path = corpus.CORPUS) -> list[bytes]:
    """What a run begins with: the target's seeds, the kept corpus and what was once found."""
    return [*target.seeds(), *corpus.kept(root, target.name), *corpus.kept(corpus.FOUND, target.name)]


def fuzz(
    target: Target,
    seed: int,
    num_inputs: int,
    found: Path,
    words: LastWords | None = None,
    more: Sequence[bytes] = (),
) -> Run:
    """Try what a run begins with, then so many new inputs.

    Args:
        target: What reads them.
        seed: Decides all of them.
        num_inputs: New ones.
        found: Where failing inputs are kept.
        words: Hears of each input before it is read; None where nobody would ask.
        more: To begin with, too: what reached something new elsewhere.
    """
    run, begun = Run(target=target.name), time.monotonic()
    rng = Random(seed)  # noqa: S311 - for inputs, not for secrets
    pool = [*first_inputs(target), *more]
    places: set[str] = set()
    for data in pool:
        _try(target, data, run, places, found, words)
    run.inputs, run.taken, run.refused = 0, 0, 0
    for _ in range(num_inputs):
        data = target.mutate(pool[rng.randrange(len(pool))], rng)[: target.max_bytes]
        verdict = _try(target, data, run, places, found, words)
        # Changes upon changes: what was taken leads on, and now and then something else.
        if verdict is Verdict.TAKEN or rng.random() < 0.02:
            if len(pool) < _POOL:
                pool.append(data)
            elif rng.random() < 0.1:
                pool[rng.randrange(len(pool))] = data
    run.seconds, run.peak_mib = time.monotonic() - begun, peak_mib()
    return run


def _try(
    target: Target, data: bytes, run: Run, places: set[str], found: Path, words: LastWords | None
) -> Verdict | None:
    run.inputs += 1
    if words is not None:
        words.say(data)
    try:
        verdict = watched(target, data, run) if run.inputs % _WATCHED == 1 else target.run(data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        note(target, data, error, run, places, found)
        return None
    if verdict is Verdict.TAKEN:
        run.taken = (run.taken or 0) + 1
    else:
        run.refused = (run.refused or 0) + 1
    return verdict


def watched(target: Target, data: bytes, run: Run) -> Verdict:
    """Read an input with an account of memory.

    Raises:
        Wrong: It took more than its length allows.
    """
    tracemalloc.start()
    try:
        verdict = target.run(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    each = max(0, peak - _FLAT_BYTES) / max(1, len(data))
    run.heap_bytes_each = max(run.heap_bytes_each or 0, each)
    if each > _BYTES_EACH:
        raise Wrong(f"{len(data)} bytes take {peak} bytes of memory")
    return verdict


def note(target: Target, data: bytes, error: BaseException, run: Run, places: set[str], found: Path) -> None:
    """Keep an input that broke a law, unless another one did at the same place."""
    trace = traceback.extract_tb(error.__traceback__)
    where = [frame for frame in trace if "/fuzz/" not in frame.filename] or trace
    # What a law says of it, without the values: two that break one law may have nothing else in common.
    words = re.sub(r"b?'[^']*'|\d+", "", str(error))[:60] if isinstance(error, Wrong) else ""
    place = f"{type(error).__name__} {where[-1].filename}:{where[-1].lineno} {words}"
    if place in places:
        return
    places.add(place)
    text = "".join(traceback.format_exception(error))[-_MOST_TEXT:]
    run.failures.append(Failure(type(error).__name__, text, str(corpus.keep(found, target.name, data))))


def main(arguments: Sequence[str]) -> None:
    """Fuzz as one JSON argument says, and print what came of it."""
    asked = json.loads(arguments[0])
    target = find(asked["target"])
    limit(asked["memory_mib"])
    logging.disable()
    try:
        with last_words(Path(asked["words"]), target.timeout_s) as words:
            more = [path.read_bytes() for path in sorted(map(Path, asked["more"]))]
            run = fuzz(target, asked["seed"], asked["inputs"], Path(asked["found"]), words, more)
    finally:
        target.close()
    print(json.dumps(asdict(run)))


if __name__ == "__main__":
    main(sys.argv[1:])
