"""The engine: a ragged batch of token ids in, a row for each sequence out.

It knows one model on one device. It knows nothing of texts, requests, deadlines or where the rows go; and it is not
safe to step from two threads at once: one lane owns it.
"""

import logging
from pathlib import Path

import torch

from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.ragged import RaggedBackend
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.attention.select import Case, choose
from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.load import load as load_on_cuda
from headrace_engine.device import facts as device_facts
from headrace_engine.device import find as find_device
from headrace_engine.graphs import Graphs
from headrace_engine.lazy import LazyTensor
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.native.calls import describe, kernels
from headrace_engine.precision import compute_dtype, row_dtype
from headrace_engine.resolve import resolve
from headrace_engine.runner import EagerRunner, Runner
from headrace_engine.weights import Weights

logger = logging.getLogger(__name__)


class Engine:
    """One loaded model.

    Attributes:
        checkpoint: What the model directory says about itself.
        dtype: The format of weights and activations, torch.float32 or torch.bfloat16; or torch.float16 where it is that
            of products alone, beside float32.
        device: Where it runs.
    """

    def __init__(
        self, checkpoint: Checkpoint, runner: Runner, limits: Limits, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Put an engine together; `load` is the usual way.

        Args:
            checkpoint: What the model was loaded from.
            runner: The model on its device.
            limits: What a batch must keep to.
            dtype: The compute dtype.
            device: Which one.
        """
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.device = device
        self._runner = runner
        self._limits = limits

    @classmethod
    def load(cls, model: str | Path | Checkpoint, config: EngineConfig | None = None) -> "Engine":
        """Find, read and load a model.

        Args:
            model: A local directory, an installed package that carries a model, or a hub id. A checkpoint that was read
                already is not read, nor its weights hashed, again.
            config: How to run it; the default is a CUDA device if there is one, or else the CPU, in the best dtype. A
                number of threads there holds for the whole process, since torch has one pool.

        Raises:
            ModelNotFound: `model` names nothing.
            CheckpointError: The directory is incomplete or contradicts itself.
            UnsupportedModel: The engine cannot run it as its authors meant it, or not on that device in that way.
            DeviceNotFound: The device asked for is not here.
            Misconfigured: float16 cannot be had there, or $HEADRACE_KERNELS_LEVEL is none of this processor's.
        """
        config = config or EngineConfig()
        if config.threads > 0:
            torch.set_num_threads(config.threads)
        checkpoint = model if isinstance(model, Checkpoint) else Checkpoint.read(resolve(model), str(model))
        device = find_device(config.device)
        dtype = compute_dtype(config, device)
        runner = load_runner(checkpoint, config, dtype, device)
        return cls(checkpoint, runner, Limits.of(checkpoint), dtype, device)

    @property
    def max_in_flight(self) -> int:
        """How many steps may be queued before the first one's rows are read: 1 on a CPU, where `step` runs them."""
        return self._runner.max_in_flight

    @torch.inference_mode()
    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Run one batch, and return as soon as its work is queued.

        The rows are the head's: vectors neither cut nor normalised, for `finish`, or logits, for `finish_scores`. The
        engine keeps no reference to the batch.

        Args:
            batch: As `pack` makes it.

        Returns:
            [num_sequences, dim] float32, in the order of the sequences given to `pack`.

        Raises:
            BatchError: A sequence is too long, an id lies outside the vocabulary, or tokens are left out that the model
                pools.
        """
        self._limits.check(batch)
        return self._runner.run(batch)

    @property
    def graphs(self) -> Graphs | None:
        """The CUDA graphs, with counters of what was captured and replayed; None where there are none."""
        return self._runner.graphs

    @property
    def wants_rest(self) -> bool:
        """Whether there is work for an idle moment."""
        return self._runner.wants_rest

    @torch.inference_mode()
    def rest(self) -> None:
        """Do one piece of work that waited for an idle moment, such as capturing one CUDA graph."""
        self._runner.rest()


@torch.inference_mode()
def load_runner(checkpoint: Checkpoint, config: EngineConfig, dtype: torch.dtype, device: torch.device) -> Runner:
    """Load a checkpoint onto a device, with the attention that suits both.

    Raises:
        CheckpointError: A tensor is missing, unused or misshapen.
        UnsupportedModel: The attention asked for cannot run the model there.
    """
    model = load_model(checkpoint, dtype, device)
    rows = row_dtype(dtype)
    case = Case(device=device_facts(device), shapes=model.shapes, dtype=rows, max_length=checkpoint.max_length)
    choice = choose(case, missing_backends(case.device.kind), config.attention, config.table)
    logger.info("attention by %s on %s: %s", choice.backend, case.device, choice.reason)
    if device.type == "cpu":
        logger.info("%s", describe(kernels()))
        backend = RaggedBackend(model.shapes, rows) if choice.backend == "ragged" else SdpaBackend()
        return EagerRunner(model, backend)
    return load_on_cuda(model, choice.backend, config, Limits.of(checkpoint), dtype, device)


def load_model(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Model:
    """Load a checkpoint's tensors onto a device; every tensor is used or known to change nothing.

    Raises:
        CheckpointError: One is missing, unused or misshapen.
    """
    config = checkpoint.encoder
    with Weights.open(checkpoint.transformer, config.prefixes, row_dtype(dtype), device, dtype) as weights:
        encoder = config.load(weights)
        model = Model(encoder, checkpoint.head.load(weights, encoder, device))
        weights.check_all_taken(config.ignored)
    return model
