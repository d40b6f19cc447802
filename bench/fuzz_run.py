"""Hostile input to all that reads what others wrote: `python bench/fuzz_run.py`.

It knows flags, what a run keeps, and how it is told. What is fuzzed, and how, has files of its own, in fuzz/.
"""

import argparse
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from arguments import count
from fuzz import campaign, corpus, guided
from fuzz.minimise import minimise
from fuzz.plain import Run
from fuzz.target import GROUPS
from fuzz.targets import chosen

_FAILED, _INTERRUPTED = 1, 130


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Fuzz Headrace.")
    parser.add_argument(
        "--targets", nargs="+", default=["decode"], help=f"names, or any of {', '.join(GROUPS)} (%(default)s)"
    )
    parser.add_argument("--inputs", type=count, default=1_000_000, help="of all targets together (%(default)s)")
    parser.add_argument("--seed", type=count, default=1, help="of the random numbers (%(default)s)")
    parser.add_argument("--processes", type=count, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    parser.add_argument(
        "--guided",
        type=float,
        default=0.2,
        help="share of the inputs of decoders that coverage chooses; 0: the same seed tries the same (%(default)s)",
    )
    parser.add_argument("--found", type=Path, default=corpus.FOUND, help="where failing inputs are kept (%(default)s)")
    parser.add_argument("--keep-corpus", action="store_true", help="keep what reached something new, minimised")
    parser.add_argument("--out", type=Path, help="JSON of what came of it")
    return parser.parse_args(arguments)


def tell(run: Run) -> None:
    """One line of what came of a process."""
    rate = run.inputs / run.seconds if run.seconds else 0
    edges = "" if run.edges is None else f", {run.edges} edges"
    kinds = ", ".join(failure.kind for failure in run.failures) or "no failure"
    how = "guided" if run.guided else "plain"
    print(
        f"{run.target:12} {how:6} {run.inputs:>10,} inputs {rate:>8,.0f}/s {run.peak_mib:>5.0f} MiB{edges}: {kinds}",
        flush=True,
    )
    for failure in run.failures:
        print(f"  {failure.file}\n    {failure.text.strip()[-600:]}", flush=True)


def facts(runs: Sequence[Run], seconds: float, flags: argparse.Namespace) -> dict[str, Any]:
    """What is kept of a run."""
    guided_inputs = sum(run.inputs for run in runs if run.guided)
    total = sum(run.inputs for run in runs)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("atheris", "msgspec", "nats-py", "tokenizers", "safetensors")},
        "seed": flags.seed,
        "processes": flags.processes,
        "inputs": total,
        "inputs_guided_by_coverage": guided_inputs,
        "inputs_from_a_seed": total - guided_inputs,
        "seconds": round(seconds, 1),
        "inputs_per_s": round(total / seconds, 1),
        "peak_mib": max((run.peak_mib for run in runs), default=0),
        "failures": sum(len(run.failures) for run in runs),
        "runs": [asdict(run) for run in runs],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Fuzz, and exit with 1 if anything was found."""
    flags = parsed(arguments)
    logging.disable()  # what cannot be read is logged as such, a million times
    try:
        targets = chosen(flags.targets)
    except ValueError as error:
        sys.exit(str(error))
    if flags.guided and not guided.is_here():
        print("atheris is not installed here: inputs are drawn from the seed, and none by what they reach")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as work:
        asked = campaign.shares(
            targets,
            flags.inputs,
            flags.seed,
            flags.found,
            Path(work),
            guided=flags.guided if guided.is_here() else 0,
            processes=flags.processes,
        )
        runs: list[Run] = []
        code = 0

        def note(run: Run) -> None:
            runs.append(run)
            tell(run)

        try:
            campaign.run(asked, flags.processes, note)
        except KeyboardInterrupt:  # what was done is told
            code = _INTERRUPTED
        seconds = time.monotonic() - begun
        if flags.keep_corpus:
            for target in targets:
                num = minimise(target, Path(work) / target.name)
                print(f"{target.name}: {num} inputs kept")
    told = facts(runs, seconds, flags)
    print(f"{told['inputs']:,} inputs in {seconds:.0f} s, {told['inputs_per_s']:,.0f}/s: {told['failures']} failures")
    if flags.out:
        flags.out.parent.mkdir(parents=True, exist_ok=True)
        flags.out.write_text(json.dumps(told, indent=1) + "\n")
    sys.exit(_FAILED if told["failures"] else code)


if __name__ == "__main__":
    main()
