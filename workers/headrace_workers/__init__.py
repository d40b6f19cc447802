"""Headrace's worker: owns NATS pulls, time, budgets and failure; holds an engine.

Read worker.py first: it is the straight line, and each of its words has a file of its own. Importing this package is
cheap; `from headrace_workers.serve import serve` brings in torch.
"""

from headrace_workers.config import WorkerConfig
from headrace_workers.counters import Counters
from headrace_workers.errors import (
    BudgetUnfit,
    DeviceFailed,
    ServerUnfit,
    ServerUnreachable,
    SpecConflict,
    TopologyConflict,
    WorkerError,
)

__all__ = [
    "BudgetUnfit",
    "Counters",
    "DeviceFailed",
    "ServerUnfit",
    "ServerUnreachable",
    "SpecConflict",
    "TopologyConflict",
    "WorkerConfig",
    "WorkerError",
]
