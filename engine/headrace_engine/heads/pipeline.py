"""The modules of sentence-transformers after the encoder: Pooling, then Dense and Normalize in their order.

It knows the order. It does not know what a caller makes of the rows: a Normalize at the very end is left to `finish`,
so that callers may do without.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.batch import RaggedBatch
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.heads.dense import DenseConfig
from headrace_engine.models import Encoder, EncoderConfig
from headrace_engine.modules import Module, Modules
from headrace_engine.output import Dtype
from headrace_engine.pooling import Pooling, pool
from headrace_engine.pooling_config import PoolingConfig
from headrace_engine.weights import WeightSource

_NORMALIZE: Literal["normalize"] = "normalize"
# The package in which a checkpoint of pplx-embed carries the module that turns rows to int8 or bits; `finish` does it.
_QUANTISER_PACKAGE = "st_quantize"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """The chain of one checkpoint.

    Attributes:
        pooling: Which tokens a row is made of.
        pooling_source: The file and field that say so.
        include_prompt: Whether the tokens of a prompt take part in the pooling.
        steps: What follows the pooling, but for a Normalize at the very end.
        dim: The dimensions of a row.
        normalize: Whether the chain ends in Normalize.
        dtypes: What `finish` can make of the rows.
        files: The modules' files.
        task: What the rows are.
        activation: Rows are no scores.
        pair_template: Texts come alone.
    """

    pooling: Pooling
    pooling_source: str
    include_prompt: bool
    steps: tuple[DenseConfig | Literal["normalize"], ...]
    dim: int
    normalize: bool
    dtypes: tuple[Dtype, ...]
    files: tuple[Path, ...]
    task: Literal["embed"] = "embed"
    activation: None = None
    pair_template: None = None

    @property
    def prompts(self) -> Mapping[str, str]:
        """None of its own."""
        return MappingProxyType({})

    @classmethod
    def read(cls, modules: Modules, config: EncoderConfig) -> "PipelineConfig":
        """Read the chain, or take mean pooling alone where there is no modules.json.

        Raises:
            CheckpointError: A file or field is missing, or one module does not fit the next.
            UnsupportedModel: A module is none of those that the engine has.
        """
        chain = modules.steps or ()
        pooling = PoolingConfig.read(chain[0].directory if chain else None)
        is_quantised = config.family == "bidirectional_pplx_qwen3"
        rest = [step for step in chain[1:] if not (is_quantised and step.package == _QUANTISER_PACKAGE)]
        steps = [_read_step(modules, step) for step in rest]
        normalize = bool(steps) and steps[-1] == _NORMALIZE
        files = [modules.file, chain[0].directory / "config.json"] if chain else []
        files += [file for step in steps if isinstance(step, DenseConfig) for file in step.files]
        return cls(
            pooling=pooling.pooling,
            pooling_source=pooling.source,
            include_prompt=pooling.include_prompt,
            steps=tuple(steps[:-1] if normalize else steps),
            dim=_check_widths(modules, pooling, steps, config.hidden_size),
            normalize=normalize,
            # The family comes with int8 first: its rows were trained to be read so.
            dtypes=("i8", "b1", "f32", "f16") if is_quantised else ("f32", "f16"),
            files=tuple(files),
        )

    def load(self, weights: WeightSource, encoder: Encoder, device: torch.device) -> "Pipeline":  # noqa: ARG002 - heads that need them share this signature
        """Read the tensors of the Dense modules, each from its own directory.

        Raises:
            CheckpointError: One is missing, unused or misshapen.
        """
        return Pipeline(
            self.pooling, [step.load(device) if isinstance(step, DenseConfig) else _normalise for step in self.steps]
        )


def _read_step(modules: Modules, step: Module) -> DenseConfig | Literal["normalize"]:
    match step.kind:
        case "Dense":
            return DenseConfig.read(step.directory)
        case "Normalize":
            return _NORMALIZE
        case _:
            message = (
                f"{modules.file}: module {step.kind} in the chain {modules.chain} is not supported: "
                "use a model with Transformer → Pooling, then any of Dense and Normalize"
            )
            raise UnsupportedModel(message)


def _check_widths(
    modules: Modules, pooling: PoolingConfig, steps: Sequence[DenseConfig | Literal["normalize"]], hidden_size: int
) -> int:
    if pooling.dim not in {None, hidden_size}:
        message = (
            f"{modules.file.parent}: pooling expects {pooling.dim} dimensions and config.json gives {hidden_size}: "
            "take both from one checkpoint"
        )
        raise CheckpointError(message)
    width = hidden_size
    for step in steps:
        if isinstance(step, DenseConfig):
            if step.inputs != width:
                message = (
                    f"{step.directory}: in_features={step.inputs} and the module before it gives {width}: "
                    "take both from one checkpoint"
                )
                raise CheckpointError(message)
            width = step.outputs
    return width


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The chain with its tensors.

    Attributes:
        pooling: Which.
        steps: Rows to rows, in order.
    """

    pooling: Pooling
    steps: list[Callable[[torch.Tensor], torch.Tensor]]

    def __call__(self, hidden: torch.Tensor, batch: RaggedBatch) -> torch.Tensor:
        """[T, D] → [N, dim] float32."""
        rows = pool(hidden, batch.cu_seqlens, self.pooling, batch.skips)
        for step in self.steps:
            rows = step(rows)
        return rows


def _normalise(rows: torch.Tensor) -> torch.Tensor:
    return F.normalize(rows, dim=-1)
