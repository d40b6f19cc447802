"""Puts a runner together for a model that is on a CUDA device already.

It knows what goes with what: an attention backend, graphs where it can be captured, and what has to be compiled before
the first batch. It does not know how the backend was chosen.
"""

import numpy as np
import torch

from headrace_engine.attention import CapturableBackend
from headrace_engine.attention.flash4 import Flash4Backend
from headrace_engine.attention.flashinfer import FlashInferBackend, FlashInferConfig
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.batch import pack
from headrace_engine.buckets import Buckets, GraphKey
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.copies import Copies, record
from headrace_engine.cuda.device import num_sms
from headrace_engine.cuda.graph import CudaCaptures, CudaEager
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.errors import Misconfigured
from headrace_engine.graphs import Graphs
from headrace_engine.limits import Limits
from headrace_engine.model import Model


def load(
    model: Model, attention: str, config: EngineConfig, limits: Limits, dtype: torch.dtype, device: torch.device
) -> CudaRunner:
    """Put a runner together, and run it once, so that no batch has to wait for what a first run compiles.

    Args:
        model: On the device.
        attention: The backend's name, as `choose` gives it.
        config: For the graphs.
        limits: Of the model.
        dtype: Of the model.
        device: The device.

    Raises:
        UnsupportedModel: The backend cannot be imported, or cannot run the model.
        Misconfigured: `config.warm_up` names a batch that there can be no graph for.
    """
    copies = Copies(device)
    backend = capturable(attention, model, config, dtype, device)
    if backend is None:
        runner = CudaRunner(CudaEager(model, SdpaBackend(), copies), None, copies)
    elif config.graphs is None or config.max_graph_tokens == 0:
        runner = CudaRunner(CudaEager(model, backend, copies), None, copies)
    else:
        runner = capturing(model, backend, config, limits, copies)
    runner.run(pack([np.zeros(1, np.uint32)])).wait()
    return runner


def capturing(
    model: Model, backend: CapturableBackend, config: EngineConfig, limits: Limits, copies: Copies
) -> CudaRunner:
    """Put a runner together that captures graphs, and capture those of `config.warm_up`.

    Raises:
        Misconfigured: `config.warm_up` names a batch that there can be no graph for.
    """
    captures = CudaCaptures(
        model, backend, copies, has_segments=limits.num_segments > 1, has_skips=not limits.include_prompt
    )
    buckets = Buckets(
        max_tokens=config.max_graph_tokens,
        max_length=limits.max_length,
        buckets_max_seqlen=backend.bakes_max_seqlen,
    )
    runner = CudaRunner(captures, Graphs(captures, buckets, config.graphs), copies)
    runner.warm_up([_key(buckets, *batch) for batch in config.warm_up])
    return runner


def _key(buckets: Buckets, num_sequences: int, length: int) -> GraphKey:
    try:
        key = buckets.fit(num_sequences * length, num_sequences, length)
    except ValueError as error:
        raise Misconfigured(_refusal(num_sequences, length, str(error))) from None
    if key is None:
        raise Misconfigured(_refusal(num_sequences, length, f"max_graph_tokens={buckets.max_tokens} is below that"))
    return key


def _refusal(num_sequences: int, length: int, reason: str) -> str:
    return (
        f"warm_up has {num_sequences} sequences of {length} tokens, for which there can be no graph: {reason}; "
        "leave them out"
    )


def capturable(
    name: str, model: Model, config: EngineConfig, dtype: torch.dtype, device: torch.device
) -> CapturableBackend | None:
    """Make the backend of a name, with what it compiles compiled; None where its launches cannot be captured.

    Raises:
        UnsupportedModel: It cannot be imported, or cannot run the model.
    """
    match name:
        case "fa2" | "fa3":
            flashinfer = FlashInferConfig(
                kernel=name,
                device=device,
                dtype=dtype,
                num_sms=num_sms(device),
                max_graph_tokens=0 if config.graphs is None else config.max_graph_tokens,
            )
            return FlashInferBackend(flashinfer, model.shapes, record)
        case "fa4":
            flash4 = Flash4Backend(model.shapes, dtype)
            flash4.warm(device)
            return flash4
        case "varlen":
            return VarlenBackend(model.shapes, dtype)
        case "sdpa":
            return None
        case _:
            message = f"This is a bug: there is no attention backend {name!r}"
            raise ValueError(message)
