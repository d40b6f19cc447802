"""The engine: a ragged batch of token ids in, a row for each sequence out.

It knows one model on one device. It knows nothing of texts, requests, deadlines or where the rows go; and it is not
safe to step from two threads at once: one lane owns it.
"""

from pathlib import Path

import numpy as np
import torch

from headrace_engine.attention import AttentionBackend
from headrace_engine.attention.cpu import CpuBackend
from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.lazy import LazyTensor
from headrace_engine.limits import Limits
from headrace_engine.models import Encoder, load_encoder, read_config
from headrace_engine.modules import Modules
from headrace_engine.pooling import pool
from headrace_engine.precision import compute_dtype
from headrace_engine.resolve import resolve


class Engine:
    """One loaded model.

    Attributes:
        checkpoint: What the model directory says about itself.
        dtype: The format of weights and activations, torch.float32 or torch.bfloat16.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        encoder: Encoder,
        attention: AttentionBackend,
        limits: Limits,
        dtype: torch.dtype,
    ) -> None:
        """Put an engine together; `load` is the usual way.

        Args:
            checkpoint: What the encoder was loaded from.
            encoder: The model, with weights of `dtype`.
            attention: What computes its attention.
            limits: What a batch must keep to.
            dtype: The compute dtype.
        """
        self.checkpoint = checkpoint
        self.dtype = dtype
        self._encoder = encoder
        self._attention = attention
        self._limits = limits

    @classmethod
    def load(cls, model: str | Path, config: EngineConfig | None = None) -> "Engine":
        """Find, read and load a model.

        Args:
            model: A local directory, an installed package that carries a model, or a hub id.
            config: How to run it; the default is the CPU in its best dtype. A number of threads there holds for the
            whole
                process, since torch has one pool.

        Raises:
            ModelNotFound: `model` names nothing.
            CheckpointError: The directory is incomplete or contradicts itself.
            UnsupportedModel: The engine cannot run it as its authors meant it.
        """
        config = config or EngineConfig()
        if config.threads > 0:
            torch.set_num_threads(config.threads)
        checkpoint = Checkpoint.read(resolve(model), str(model))
        directory = Modules.read(checkpoint.path).transformer
        shape = read_config(directory)
        limits = Limits(
            max_length=checkpoint.max_length,
            max_length_source=checkpoint.max_length_source,
            vocab_size=checkpoint.vocab_size,
            num_segments=shape.num_segments,
        )
        dtype = compute_dtype(config)
        return cls(checkpoint, load_encoder(directory, shape, dtype), CpuBackend(), limits, dtype)

    @torch.inference_mode()
    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Run one batch, and return as soon as its work is queued.

        The rows are those of the checkpoint's pooling, neither cut nor normalised: `finish` does that. The engine keeps
        no reference to the batch.

        Args:
            batch: As `pack` makes it.

        Returns:
            [num_sequences, dim] float32, in the order of the sequences given to `pack`.

        Raises:
            BatchError: A sequence is too long, or an id lies outside the vocabulary.
        """
        self._limits.check(batch)
        hidden = self._encoder(batch, self._attention.plan(batch))
        rows = pool(hidden, batch.cu_seqlens, self.checkpoint.pooling)
        return LazyTensor(rows[torch.from_numpy(np.argsort(batch.order))])
