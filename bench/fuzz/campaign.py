"""Many processes that fuzz, as many at a time as there are to be, and what came of all of them.

It knows how plain.py and guided.py are started and what they print. It does not know what they try.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from fuzz import corpus
from fuzz.last_words import of_the_dead
from fuzz.plain import Failure, Run
from fuzz.target import Target

_BENCH = Path(__file__).parents[1]
_WATCHED = 500
_MORE_MIB, _RSS_MIB = 4096, 2048
_STATS = {
    "inputs": re.compile(r"stat::number_of_executed_units:\s*(\d+)"),
    "kept": re.compile(r"stat::new_units_added:\s*(\d+)"),
    "peak_mib": re.compile(r"stat::peak_rss_mb:\s*(\d+)"),
}
_EDGES = re.compile(r"\bcov: (\d+) ft: (\d+)")
_CRASH = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process is to try.

    Attributes:
        target: Its name.
        guided: Whether coverage decides which inputs.
        seed: Of the random numbers.
        inputs: How many.
        found: Where failing inputs are kept.
        corpus: Where inputs are kept that reach something new; a guided process alone writes there.
    """

    target: Target
    guided: bool
    seed: int
    inputs: int
    found: Path
    corpus: Path


def shares(
    targets: Sequence[Target], inputs: int, seed: int, found: Path, work: Path, *, guided: float, processes: int
) -> list[Share]:
    """Divide inputs evenly among targets, and each target's among processes; those that coverage chooses come first.

    What is no decoder is never guided: there is little Python of ours between the input and native code, or it is read
    by a process of its own.

    Args:
        targets: What is to be fuzzed.
        inputs: Of all of them together.
        seed: Of the first process.
        found: Where failing inputs are kept.
        work: A folder for what reaches something new.
        guided: The share of the inputs that coverage chooses, 0 to 1.
        processes: How many share a target.
    """
    found_shares = []
    for is_guided in (True, False):
        for number in range(processes):
            for target in targets:
                part = guided if target.group == "decode" else 0.0
                each = inputs * (part if is_guided else 1 - part) / (len(targets) * processes)
                if each:
                    found_shares.append(
                        Share(
                            target=target,
                            guided=is_guided,
                            seed=seed + number,
                            inputs=ceil(each),
                            found=found,
                            corpus=work / target.name,
                        )
                    )
    return found_shares


def run(asked: Iterable[Share], processes: int, tell: Callable[[Run], None]) -> list[Run]:
    """Run all of them, so many at a time.

    Args:
        asked: What.
        processes: How many at a time.
        tell: Is called with each that has ended.
    """

    def one(share: Share) -> Run:
        found = _guided(share) if share.guided else _plain(share)
        tell(found)
        return found

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, asked))


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(_BENCH), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def _start(module: str, asked: dict[str, object]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", f"fuzz.{module}", json.dumps(asked)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=_environment())


def _plain(share: Share) -> Run:
    words = share.corpus.parent / f"{share.target.name}-{share.seed}.last"
    asked: dict[str, object] = {
        "words": str(words),
        # What coverage has led to, where it was asked before.
        "more": [str(path) for path in share.corpus.iterdir()] if share.corpus.is_dir() else [],
        "target": share.target.name,
        "seed": share.seed,
        "inputs": share.inputs,
        "found": str(share.found),
        "memory_mib": _MORE_MIB,
    }
    done = _start("plain", asked)
    try:
        found = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        return _died(share, done, of_the_dead(words))
    return Run(**{**found, "failures": [Failure(**each) for each in found["failures"]]})


def _guided(share: Share) -> Run:
    share.corpus.mkdir(parents=True, exist_ok=True)
    for data in (*share.target.seeds(), *corpus.kept(corpus.FOUND, share.target.name)):
        corpus.keep(share.corpus.parent, share.corpus.name, data)
    (share.found / share.target.name).mkdir(parents=True, exist_ok=True)
    kept = corpus.CORPUS / share.target.name
    asked: dict[str, object] = {
        "target": share.target.name,
        "packages": list(share.target.packages),
        "seed": share.seed,
        "inputs": share.inputs,
        "watched": _WATCHED,
        "found": str(share.found),
        "corpora": [str(share.corpus), *([str(kept)] if kept.is_dir() else [])],
        "memory_mib": _MORE_MIB,
        "rss_mib": _RSS_MIB,
    }
    begun = time.monotonic()
    done = _start("guided", asked)
    return replace(_read_guided(share, done), seconds=time.monotonic() - begun)


def _read_guided(share: Share, done: "subprocess.CompletedProcess[str]") -> Run:
    told = done.stderr
    stats = {name: each.search(told) for name, each in _STATS.items()}
    inputs = stats["inputs"]
    if inputs is None:
        return _died(share, done, None)
    counts = [json.loads(line.partition(" ")[2]) for line in told.splitlines() if line.startswith("COUNTED ")]
    failures = [
        Failure(**json.loads(line.partition(" ")[2])) for line in told.splitlines() if line.startswith("FAILURE ")
    ]
    if done.returncode:
        crash = _CRASH.search(told)
        failures.append(Failure("libFuzzer", told[-4000:], crash[1] if crash else ""))
    edges = _EDGES.findall(told)
    last = counts[-1] if counts else {}
    return Run(
        target=share.target.name,
        guided=True,
        inputs=int(inputs[1]),
        taken=last.get("taken"),
        refused=last.get("refused"),
        peak_mib=float(found[1]) if (found := stats["peak_mib"]) else 0,
        heap_bytes_each=last.get("heap_bytes_each"),
        edges=int(edges[-1][0]) if edges else None,
        failures=failures,
        kept=int(found[1]) if (found := stats["kept"]) else 0,
    )


def _died(share: Share, done: "subprocess.CompletedProcess[str]", last: bytes | None) -> Run:
    """A process that ended without a result: that is a failure of what it tried, a hang or a crash."""
    text = f"the process ended with {done.returncode}: {done.stderr[-4000:]}"
    file = "" if last is None else str(corpus.keep(share.found, share.target.name, last))
    return Run(target=share.target.name, guided=share.guided, failures=[Failure("died", text, file)])
