"""When a batch replays a captured CUDA graph, and when it runs eagerly.

    too many tokens for a key       eager
    first hit of a key              eager
    second hit                      eager; the key now waits for an idle moment to be captured in
    a hit after waiting `defer_s`   captured at once, then replayed
    captured                        replayed
    the capture failed              eager, for good
    it found no memory              eager; nothing is captured for `pause_s`, since neighbours may make room

It knows hits, ages and bytes. It does not know how a batch is run, captured or replayed: a `GraphBackend` does.
"""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.buckets import Buckets, GraphKey, pad

logger = logging.getLogger(__name__)


class CapturedGraph(Protocol):
    """The whole model, recorded for one shape."""

    @property
    def num_bytes(self) -> int:
        """The device memory that its capture has added; it never changes."""

    def replay(self, padded: RaggedBatch) -> torch.Tensor:
        """Run a batch on the CPU of exactly the key's sizes: [key.num_sequences, dim] float32, in packed order.

        The result may be a buffer that all graphs share: the next replay or capture writes over it.
        """

    def release(self) -> None:
        """Give its memory back, once what is queued has run."""


class GraphBackend(Protocol):
    """How a model runs on a device."""

    def eager(self, batch: RaggedBatch) -> torch.Tensor:
        """Run a batch on the CPU, launch by launch: [num_sequences, dim] float32, in packed order."""

    def capture(self, key: GraphKey) -> CapturedGraph:
        """Record the model for one shape; raises where that is impossible, and leaves nothing behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphConfig:
    """How many graphs there may be, and when they are captured.

    Attributes:
        max_bytes: The most device memory that the captures of all graphs there are have added; while one is captured,
            it comes on top. What a released graph leaves stays with the pool that all share, for those captured after
            it: so this bounds how far the pool grows, and `max_graph_tokens` how much one graph takes.
        max_graphs: The most graphs.
        defer_s: How long a key may wait for an idle moment; a hit after that captures it, busy or not. With 0 the
            second hit does.
        pause_s: How long nothing is captured after a capture found no memory.
        max_keys: How many keys are remembered that have no graph, those hit least recently being forgotten first. After
            as many failed captures nothing more is captured.

    Raises:
        ValueError: A field makes no sense.
    """

    max_bytes: int = 2 * 2**30
    max_graphs: int = 512
    defer_s: float = 1.0
    pause_s: float = 60.0
    max_keys: int = 4096

    def __post_init__(self) -> None:
        for name, least in (("max_bytes", 0), ("max_graphs", 1), ("defer_s", 0), ("pause_s", 0), ("max_keys", 1)):
            if getattr(self, name) < least:
                message = f"{name}={getattr(self, name)} is too small: set at least {least}"
                raise ValueError(message)


@dataclass(slots=True)
class GraphCounters:
    """What has happened so far; any thread may read them. Each run counts once, as one of the eager_x or a replay.

    Attributes:
        eager_too_large: Runs of batches too large for a graph.
        eager_first: Runs that were the first hit of their key.
        eager_deferred: Runs while their key waited for an idle moment.
        eager_failed: Runs whose key cannot be captured.
        replays: Runs that replayed a graph.
        captures: Graphs captured and kept.
        failed_captures: Captures that raised, found no memory, or gave a graph larger than the cap.
        evictions: Graphs released to make room for others, in the pool that all share.
    """

    eager_too_large: int = 0
    eager_first: int = 0
    eager_deferred: int = 0
    eager_failed: int = 0
    replays: int = 0
    captures: int = 0
    failed_captures: int = 0
    evictions: int = 0


@dataclass(slots=True)
class _Hits:
    count: int
    since_s: float = 0  # when the second one was


class Graphs:
    """The graphs of one model, captured lazily.

    Attributes:
        buckets: Which shapes are captured.
        counters: What has happened so far.
    """

    def __init__(
        self,
        backend: GraphBackend,
        buckets: Buckets,
        config: GraphConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without any graph.

        Args:
            backend: What runs the model.
            buckets: Which shapes are captured.
            config: When, and how many.
            clock: Seconds, ever rising.
        """
        self.counters = GraphCounters()
        self._backend = backend
        self.buckets = buckets
        self._config = config or GraphConfig()
        self._clock = clock
        self._lock = threading.Lock()  # graphs share one pool and one output: no two of them may run or be captured
        self._graphs: OrderedDict[GraphKey, CapturedGraph] = OrderedDict()  # least recently used first
        self._hits: OrderedDict[GraphKey, _Hits] = OrderedDict()  # of keys without a graph, least recent first
        self._waiting: dict[GraphKey, _Hits] = {}  # those hit twice, oldest first
        self._failed: set[GraphKey] = set()
        self._paused_until_s = -math.inf
        self._num_bytes = 0

    @property
    def num_graphs(self) -> int:
        """Graphs there are now."""
        return len(self._graphs)

    @property
    def num_waiting(self) -> int:
        """Keys that an idle moment now would serve."""
        return 0 if self._is_paused() else len(self._waiting)

    @property
    def num_bytes(self) -> int:
        """The device memory that their captures have added."""
        return self._num_bytes

    def run(self, batch: RaggedBatch) -> torch.Tensor:
        """Run a batch, the fastest way there is for it now.

        Args:
            batch: On the CPU, checked against the model's limits.

        Returns:
            [num_sequences, dim] float32 in packed order, without rows of dummies. Valid until the next call of any
            method: queue a copy of it before that.
        """
        with self._lock:
            key = self.buckets.key(batch)
            graph = self._graph(key)
            if key is None or graph is None:
                return self._backend.eager(batch)
            self.counters.replays += 1
            return graph.replay(pad(batch, key))[: batch.num_sequences]

    def rest(self) -> bool:
        """Use an idle moment: capture the waiting key with the most hits, of equals the one that waits longest.

        Returns:
            Whether more keys wait.
        """
        with self._lock:
            if self._waiting and not self._is_paused():
                self._capture(max(self._waiting, key=lambda key: self._waiting[key].count))
            return self.num_waiting > 0

    def warm_up(self, keys: Iterable[GraphKey]) -> None:
        """Capture shapes that are known to come, before they do; the largest first, since the others reuse its pool."""
        with self._lock:
            for key in sorted(set(keys) - self._graphs.keys() - self._failed, reverse=True):
                self._capture(key)

    def release(self) -> None:
        """Release all graphs and forget all keys, those that failed among them."""
        with self._lock:
            for books in (self._hits, self._waiting, self._failed):
                books.clear()
            while self._graphs:
                self._release_oldest()

    def _graph(self, key: GraphKey | None) -> CapturedGraph | None:
        """The graph to replay; None where this batch runs eagerly."""
        if key is None:
            self.counters.eager_too_large += 1
            return None
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        if key in self._failed or len(self._failed) >= self._config.max_keys:
            self.counters.eager_failed += 1
            return None
        hits = self._hit(key)
        if hits.count == 1:
            self.counters.eager_first += 1
            return None
        if self._clock() < hits.since_s + self._config.defer_s or self._is_paused():
            self.counters.eager_deferred += 1
            return None
        graph = self._capture(key)
        if graph is None:
            self.counters.eager_failed += 1
        return graph

    def _hit(self, key: GraphKey) -> _Hits:
        hits = self._hits.setdefault(key, _Hits(0))
        self._hits.move_to_end(key)
        hits.count += 1
        if hits.count == 2:
            hits.since_s = self._clock()
            self._waiting[key] = hits
        if len(self._hits) > self._config.max_keys:
            forgotten, _ = self._hits.popitem(last=False)
            self._waiting.pop(forgotten, None)
        return hits

    def _capture(self, key: GraphKey) -> CapturedGraph | None:
        self._hits.pop(key, None)  # should the graph be evicted, its key is counted anew
        self._waiting.pop(key, None)
        try:
            graph = self._backend.capture(key)
        except torch.OutOfMemoryError as error:
            self.counters.failed_captures += 1
            self._paused_until_s = self._clock() + self._config.pause_s
            logger.warning("no graph is captured for %g s: %s found no memory: %r", self._config.pause_s, key, error)
            return None
        except Exception as error:  # noqa: BLE001 - whatever the reason, the batch can still run eagerly
            self._give_up(key, f"the capture failed: {error!r}")
            return None
        if graph.num_bytes > self._config.max_bytes:
            graph.release()
            self._give_up(key, f"its {graph.num_bytes} bytes are more than max_bytes={self._config.max_bytes}")
            return None
        self.counters.captures += 1
        self._graphs[key] = graph
        self._num_bytes += graph.num_bytes
        while self._num_bytes > self._config.max_bytes or len(self._graphs) > self._config.max_graphs:
            self._release_oldest()
            self.counters.evictions += 1
        return graph

    def _is_paused(self) -> bool:
        return self._clock() < self._paused_until_s

    def _give_up(self, key: GraphKey, reason: str) -> None:
        self._failed.add(key)
        self.counters.failed_captures += 1
        logger.warning("batches of %s run eagerly from now on: %s", key, reason)

    def _release_oldest(self) -> None:
        _, graph = self._graphs.popitem(last=False)
        self._num_bytes -= graph.num_bytes
        graph.release()
