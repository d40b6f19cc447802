"""Whether the engine is right on this CUDA device, and how fast: one command, in less than four minutes.

It knows flags, the order of the parts and how a run ends. Each part has a file of its own, in gpu/.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import engine_path  # noqa: F401 - so that the engine need not be installed
import torch
from gpu import device as gpu_device
from gpu import older_torch
from gpu.bench import CPU, GPU
from gpu.blueprint import QWEN3
from gpu.child import STAGES
from gpu.child import main as be_child
from gpu.complaints import in_a_line
from gpu.crew import Crew
from gpu.facts import Facts, ranking
from gpu.finding import Check, Finding, Where
from gpu.plan import Job
from gpu.rates import measure_rates
from gpu.report import report
from gpu.result import Result
from gpu.schedule import Extent, Schedule
from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.device import find
from headrace_engine.errors import DeviceNotFound
from rich.console import Console

_RESULTS = Path(__file__).parent / "results" / "local"
# A table wider than this is cut where output goes to a file or a pipe.
_PIPED_WIDTH = 120
_BACKENDS = (*OBSTACLES, older_torch.NAME)
_PROCESSES = {True: 4, False: 2}  # on a GPU, on a CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`."""

    device: str
    budget_s: float
    backends: list[str]
    stages: list[str]
    out: Path
    child: str | None

    @classmethod
    def parse(cls) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
        parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (%(default)s)")
        parser.add_argument("--budget-s", type=float, default=210.0, help="seconds in all (%(default)s)")
        parser.add_argument(
            "--backends", nargs="+", choices=_BACKENDS, default=[], help="these alone, if they are there"
        )
        parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="these alone")
        parser.add_argument("--out", type=Path, help="file to write (bench/results/local/gpu-<date>.json)")
        parser.add_argument("--child", help=argparse.SUPPRESS)
        found = parser.parse_args()
        found.out = found.out or _RESULTS / f"gpu-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        return cls(**vars(found))


class Run:
    """One run: what it found so far, kept in a file and told on the way."""

    def __init__(self, flags: Flags, device: torch.device, console: Console) -> None:
        """Look around."""
        self._flags = flags
        self._device = device
        self._console = console
        self._began_s = time.monotonic()
        self.result = Result(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=Facts.here(device),
            budget_s=flags.budget_s,
            is_small=not gpu_device.is_cuda(device),
        )

    def run(self) -> None:
        """Run everything; whatever happens, what was found is in the file."""
        try:
            self._measure_rates()
            self._run_schedule()
            self.result.end = "it ended"
        except KeyboardInterrupt:
            self.result.end = "it was interrupted"
            raise
        except Exception as error:
            self.result.end = f"it broke off ({in_a_line(error)})"
            raise
        finally:
            self._save()

    def _measure_rates(self) -> None:
        self._say("rates")
        try:
            self.result.rates = measure_rates(self._device)
        except Exception as error:  # noqa: BLE001 - without rates there are no floors, and all else is as good
            self.tell(Check(Where("rates", "torch"), "the device's rates", "failed", in_a_line(error)))
        gpu_device.give_back(self._device)

    def _run_schedule(self) -> None:
        backends, absent = ranking(self._device)
        for name, reason in absent.items():
            self.tell(Check(Where("prepare", name), "it is here", "skipped", reason))
        is_cuda = gpu_device.is_cuda(self._device)
        extent = Extent(
            backends=[name for name in backends if not self._flags.backends or name in self._flags.backends],
            stages=frozenset(self._flags.stages),
            num_processes=_PROCESSES[is_cuda],
            sizes=GPU if is_cuda else CPU,
            bulk=QWEN3 if is_cuda else QWEN3.small(),
        )
        left_s = self._flags.budget_s - self._elapsed_s()
        command = [str(Path(__file__)), "--device", str(self._device), "--child"]
        with Crew(command, self._flags.out.with_suffix(".log")) as crew:
            Schedule(crew, extent, left_s, self.tell, self._begin).run()

    def tell(self, finding: Finding) -> None:
        """Keep a finding, and show it at once if it is bad."""
        self.result.add(finding)
        self._save()
        if isinstance(finding, Check) and finding.outcome == "failed":
            self._say(f"FAILED {finding.where.backend} {finding.where.model} {finding.what}: {finding.detail}")

    def _begin(self, job: Job) -> None:
        self._say(f"{job.stage} {job.backend}")

    def _say(self, what: str) -> None:
        self._console.print(f"{self._elapsed_s():5.0f} s  {what}", markup=False, highlight=False)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _save(self) -> None:
        self.result.took_s = self._elapsed_s()
        self.result.save(self._flags.out)


def main() -> None:
    """Check, show, save; exits with 1 if a check failed or the run broke off."""
    flags = Flags.parse()
    try:
        device = find(flags.device)
    except DeviceNotFound as error:
        sys.exit(str(error))
    if flags.child is not None:
        be_child(flags.child, device)
        return
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    run = Run(flags, device, console)
    try:
        run.run()
    except KeyboardInterrupt:
        pass
    finally:
        for part in report(run.result):
            console.print(part)
        print(os.path.relpath(flags.out))
    sys.exit(run.result.has_failed or run.result.end != "it ended")


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
