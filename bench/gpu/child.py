"""The process of one backend: takes commands, a line each, and says what it finds, a line each.

It knows the stages by name. It does not know their order, nor that other backends have processes too; what breaks here
breaks nothing there.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TextIO, TypeAlias

import torch

from gpu import device as gpu_device
from gpu import older_torch
from gpu.attention import check_attention
from gpu.backend import Backend, CpuBackend, CudaBackend
from gpu.bench import CPU, GPU, Bench, Sizes
from gpu.blueprint import MODELS, QWEN3, QWEN3_BOTH_SIDES, Blueprint
from gpu.bulk import run_bulk
from gpu.captures import measure_captures
from gpu.complaints import in_a_line
from gpu.deadline import Deadline
from gpu.finding import Check, Done, Message, Ready, Where, to_line
from gpu.host import measure_host
from gpu.leaks import check_leaks
from gpu.memory import watch_memory
from gpu.older_torch import OlderTorchBackend
from gpu.prepare import prepare
from gpu.races import check_races
from gpu.rows import check_rows
from gpu.steps import time_steps

Stage: TypeAlias = Callable[[Bench, Blueprint, Deadline], Iterator[Message]]

_ALL = (*MODELS, QWEN3_BOTH_SIDES)
STAGES: Mapping[str, tuple[Stage, tuple[Blueprint, ...]]] = MappingProxyType(
    {
        "attention": (check_attention, _ALL),
        "rows": (check_rows, MODELS),
        "leaks": (check_leaks, MODELS),
        "races": (check_races, MODELS),
        "captures": (measure_captures, MODELS),
        "host": (measure_host, (QWEN3,)),
        "steps": (time_steps, MODELS),
        "bulk": (run_bulk, (QWEN3,)),
        "memory": (watch_memory, (QWEN3,)),
    }
)


@dataclass(frozen=True, slots=True)
class Command:
    """What a process is told.

    Attributes:
        stage: Which stage to run.
        seconds: How long it may take.
    """

    stage: str
    seconds: float

    def to_line(self) -> str:
        """One line, without its end."""
        return json.dumps({"stage": self.stage, "seconds": self.seconds})


def serve(bench: Bench, commands: Iterator[str], say: Callable[[Message], None]) -> None:
    """Prepare, then run one stage a command, until there are no more commands.

    Raises:
        RuntimeError: The device takes no more work, which only the end of the process cures.
    """
    models: tuple[str, ...] = ()
    for message in prepare(bench.backend, [_sized(blueprint, bench) for blueprint in _ALL]):
        if isinstance(message, Ready):
            models = message.models
        say(message)
    for line in commands:
        command = Command(**json.loads(line))
        run, blueprints = STAGES[command.stage]
        deadline = Deadline(command.seconds)
        for blueprint in blueprints:
            if blueprint.name in models:
                _run(bench, command.stage, run, _sized(blueprint, bench), deadline, say)
        say(Done())


def _run(
    bench: Bench,
    name: str,
    stage: Stage,
    blueprint: Blueprint,
    deadline: Deadline,
    say: Callable[[Message], None],
) -> None:
    where = Where(name, bench.backend.name, blueprint.name)
    if deadline.is_over:
        say(Check(where, "the stage", "skipped", "its time was used up"))
        return
    try:
        for message in stage(bench, blueprint, deadline):
            say(message)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other models and stages can still be tried
        say(Check(where, "the stage runs", "failed", in_a_line(error)))
    gc.collect()
    # After an illegal access every call fails until the process ends, so this one says whether there is a way on.
    gpu_device.synchronize(bench.backend.device)
    gpu_device.give_back(bench.backend.device)


def _sized(blueprint: Blueprint, bench: Bench) -> Blueprint:
    return blueprint if gpu_device.is_cuda(bench.backend.device) else blueprint.small()


def main(name: str, device: torch.device) -> None:
    """Be the process of a backend, until standard input ends."""
    # What libraries and compilers print must not get between the lines, nor what they read be taken from them.
    lines_out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    lines_in = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    # Some images of torch come with TF32 switched on, and then float32 would be no reference.
    torch.set_float32_matmul_precision("highest")
    bench = Bench(_backend(name, device), _sizes(device), lines_in.readline)
    serve(bench, iter(lines_in.readline, ""), _say(lines_out))


def _say(lines: TextIO) -> Callable[[Message], None]:
    def say(message: Message) -> None:
        print(to_line(message), file=lines, flush=True)

    return say


def _sizes(device: torch.device) -> Sizes:
    return GPU if gpu_device.is_cuda(device) else CPU


def _backend(name: str, device: torch.device) -> Backend:
    if not gpu_device.is_cuda(device):
        return CpuBackend(name, device, torch.bfloat16)
    kind = OlderTorchBackend if name == older_torch.NAME else CudaBackend
    return kind(name, device, torch.bfloat16)
