"""Headrace's engine: token ids in, vectors or scores out.

It knows models, weights and arithmetic. It knows no NATS, no asyncio, no texts and no requests; it imports no other
part of Headrace.
"""

from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.engine import Engine
from headrace_engine.errors import (
    BatchError,
    CheckpointError,
    DeviceNotFound,
    EngineError,
    Misconfigured,
    ModelNotFound,
    UnsupportedModel,
)
from headrace_engine.graphs import GraphConfig, GraphCounters
from headrace_engine.lazy import LazyTensor
from headrace_engine.output import OutputOptions, finish, finish_scores
from headrace_engine.pair_template import PairTemplate

__all__ = [
    "BatchError",
    "Checkpoint",
    "CheckpointError",
    "DeviceNotFound",
    "Engine",
    "EngineConfig",
    "EngineError",
    "GraphConfig",
    "GraphCounters",
    "LazyTensor",
    "Misconfigured",
    "ModelNotFound",
    "OutputOptions",
    "PairTemplate",
    "RaggedBatch",
    "UnsupportedModel",
    "finish",
    "finish_scores",
    "pack",
]
