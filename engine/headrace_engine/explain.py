"""What an engine would make of a model on a device, and why: every choice with its reason, before anything is loaded.

It reads configurations and the headers of weight files. It loads no tensor and starts no device: the device is a few
facts, which may be those of one that is not here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import safe_open

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.flash4 import Flash4Backend
from headrace_engine.attention.flashinfer import FlashInferBackend
from headrace_engine.attention.select import AUTO, Case, Choice, DeviceFacts, choose
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.buckets import Buckets
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.engine import load_model
from headrace_engine.errors import UnsupportedModel
from headrace_engine.native.calls import describe, kernels
from headrace_engine.native.library import Missing
from headrace_engine.precision import row_dtype
from headrace_engine.weights import load_pickle, weight_files

_BAKES_MAX_SEQLEN = {
    "fa2": FlashInferBackend.bakes_max_seqlen,
    "fa3": FlashInferBackend.bakes_max_seqlen,
    "fa4": Flash4Backend.bakes_max_seqlen,
    "varlen": VarlenBackend.bakes_max_seqlen,
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so, or would be.

    Attributes:
        topic: What it is about.
        value: How it is.
        reason: Why, or where it is known from; empty where there is nothing to say.
    """

    topic: str
    value: str
    reason: str = ""


def explain(
    checkpoint: Checkpoint,
    config: EngineConfig,
    device: DeviceFacts,
    dtype: torch.dtype,
    missing: Mapping[str, str],
) -> tuple[Fact, ...]:
    """Say what `Engine.load` would come to.

    Args:
        checkpoint: The model.
        config: How it is to be run; its device is not looked at.
        device: What it is to be run on.
        dtype: What config.dtype comes to there: see `compute_dtype`.
        missing: What stands in the way of each attention backend that is not installed: see `missing_backends`.

    Returns:
        Facts in the order of a step. Where the attention asked for cannot run the model, one says so.

    Raises:
        CheckpointError: A tensor is missing, unused or misshapen.
    """
    # On the meta device tensors have shapes and no numbers, and every one is looked for all the same.
    shapes = load_model(checkpoint, dtype, torch.device("meta")).shapes
    case = Case(device=device, shapes=shapes, dtype=row_dtype(dtype), max_length=checkpoint.max_length)
    return (
        *_model(checkpoint),
        *_weights(checkpoint, dtype),
        Fact("device", str(device)),
        *_kernels(device, missing),
        Fact("dtype", _name(dtype), _dtype_reason(config, device, dtype)),
        *(Fact("layers ask for", text(shape)) for shape in shapes),
        *_attention(case, config, missing),
    )


def text(shape: AttentionShape) -> str:
    """Describe what a layer asks of attention."""
    keys = "" if shape.num_kv_heads == shape.num_heads else f", of keys {shape.num_kv_heads}"
    sight = "tokens see those before them" if shape.causal else "tokens see both sides"
    reach = "" if shape.window is None else f", {shape.window} tokens far"
    bias = ", with a bias by position" if shape.has_position_bias else ""
    return f"{shape.num_heads} heads of {shape.head_dim}{keys}; {sight}{reach}{bias}"


def _model(checkpoint: Checkpoint) -> Iterator[Fact]:
    encoder = checkpoint.encoder
    yield Fact("model", checkpoint.source, str(checkpoint.path))
    yield Fact("family", checkpoint.family, f"{encoder.num_layers} layers of width {encoder.hidden_size}")
    yield Fact("task", ", ".join(checkpoint.tasks), _result(checkpoint))
    left_out = "" if checkpoint.include_prompt else ", the prompt left out"
    yield Fact("pooling", checkpoint.pooling + left_out, checkpoint.pooling_source)
    yield Fact("max length", f"{checkpoint.max_length} tokens", checkpoint.max_length_source)
    if checkpoint.prompts:
        yield Fact("prompts", ", ".join(checkpoint.prompts), f"default: {checkpoint.default_prompt or 'none'}")
    yield Fact("revision", checkpoint.revision)


def _result(checkpoint: Checkpoint) -> str:
    if checkpoint.activation is not None:
        return f"a score for each pair, {checkpoint.activation}"
    normalised = ", normalised" if checkpoint.normalize else ""
    return f"{checkpoint.dim} dimensions{normalised}, sent as {' or '.join(checkpoint.dtypes)}"


def _weights(checkpoint: Checkpoint, dtype: torch.dtype) -> Iterator[Fact]:
    heads = [path for path in checkpoint.head.files if path.suffix in {".safetensors", ".bin"}]
    files = {*weight_files(checkpoint.transformer), *heads}
    num_parameters = sum(map(_num_parameters, files))
    stored = sum(path.stat().st_size for path in files)
    loaded = f"{_megabytes(num_parameters * dtype.itemsize)} as {_name(dtype)}"
    if row_dtype(dtype) != dtype:
        loaded = f"those of linear layers as {_name(dtype)}, others as {_name(row_dtype(dtype))}"
    yield Fact("parameters", f"{num_parameters:,}", f"{_megabytes(stored)} stored, {loaded}")


def _num_parameters(file: Path) -> int:
    if file.suffix == ".bin":
        return sum(tensor.numel() for tensor in load_pickle(file, "meta").values())
    with safe_open(file, framework="pt") as opened:
        return sum(prod(opened.get_slice(name).get_shape()) for name in opened.keys())  # noqa: SIM118 - no mapping


def _kernels(device: DeviceFacts, missing: Mapping[str, str]) -> Iterator[Fact]:
    if device.kind == "cpu":
        # What stands in the way of attention stands in the way of all.
        found = Missing(missing["ragged"]) if "ragged" in missing else kernels()
        yield Fact("CPU kernels", describe(found))


def _attention(case: Case, config: EngineConfig, missing: Mapping[str, str]) -> Iterator[Fact]:
    try:
        choice = choose(case, missing, config.attention, config.table)
    except UnsupportedModel as error:
        yield Fact("attention", "none", str(error))
        return
    yield Fact("attention", choice.backend, choice.reason)
    yield from (Fact(f"not {name}", "", reason) for name, reason in choice.others.items())
    yield from _graphs(case, config, choice)


def _graphs(case: Case, config: EngineConfig, choice: Choice) -> Iterator[Fact]:
    if case.device.kind == "cpu" or config.graphs is None or config.max_graph_tokens == 0:
        yield Fact("graphs", "none", "a CPU has none" if case.device.kind == "cpu" else "they are switched off")
        return
    bakes = _BAKES_MAX_SEQLEN.get(choice.backend)
    if bakes is None:
        yield Fact("graphs", "none", f"the launches of {choice.backend} follow the lengths of a batch")
        return
    buckets = Buckets(max_tokens=config.max_graph_tokens, max_length=case.max_length, buckets_max_seqlen=bakes)
    yield Fact("graphs", f"batches of up to {buckets.max_tokens} tokens", "larger ones hide their launches anyway")
    yield Fact(
        "graph tokens",
        f"multiples of {buckets.fine_step} up to {buckets.fine_tokens}, of {buckets.coarse_step} above",
        "padding is made of dummy sequences",
    )
    key = "tokens, sequences" + (", max_seqlen" if bakes else "")
    launches = "have max_seqlen in them" if bakes else "read all lengths at each replay"
    yield Fact("graph key", key, f"the launches of {choice.backend} {launches}")
    yield Fact(
        "graphs kept", f"{config.graphs.max_graphs}, of {_megabytes(config.graphs.max_bytes)}", "captured lazily"
    )


def _dtype_reason(config: EngineConfig, device: DeviceFacts, dtype: torch.dtype) -> str:
    if config.dtype != AUTO:
        reason = "it was asked for by name"
    else:
        reason = "the default on CUDA devices" if device.kind == "cuda" else "the fastest one here, as just measured"
    # CUDA C++ Programming Guide, Feature Support per Compute Capability.
    if dtype == torch.bfloat16 and device.capability is not None and device.capability < (8, 0):
        reason += "; devices below compute capability 8.0 have no native bfloat16: compare with dtype='float32'"
    return reason


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"
