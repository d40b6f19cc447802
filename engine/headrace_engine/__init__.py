"""Headrace's engine: token ids in, vectors out.

It knows models, weights and arithmetic. It knows no NATS, no asyncio, no texts and no requests; it imports no other
part of Headrace.
"""

from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.engine import Engine
from headrace_engine.errors import BatchError, CheckpointError, EngineError, ModelNotFound, UnsupportedModel
from headrace_engine.lazy import LazyTensor
from headrace_engine.output import OutputOptions, finish

__all__ = [
    "BatchError",
    "Checkpoint",
    "CheckpointError",
    "Engine",
    "EngineConfig",
    "EngineError",
    "LazyTensor",
    "ModelNotFound",
    "OutputOptions",
    "RaggedBatch",
    "UnsupportedModel",
    "finish",
    "pack",
]
