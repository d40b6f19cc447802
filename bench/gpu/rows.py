"""Rows: eager ones against those of a float32 model, and replayed ones against eager ones.

It knows what should equal what. It does not know how near is near: `likeness` does.

A replayed batch is padded, and padding changes the shapes of matrix products, hence their rounding. So a replay is held
closely to an eager run of the same padded batch, and as any other run to the float32 rows.
"""

from collections.abc import Iterator

import torch
from headrace_engine.model import Model

from gpu import device as gpu_device
from gpu.batches import Lengths, draw, ladder, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.complaints import heard
from gpu.deadline import Deadline
from gpu.finding import Check, Where
from gpu.likeness import REFERENCE, SAME, SPLIT, Bound, Tally
from gpu.model import Built
from gpu.ways import Ways, reference_rows


@torch.inference_mode()
def check_rows(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Check]:
    """Run a ladder of batches in every way there is."""
    backend = bench.backend
    where = Where("rows", backend.name, blueprint.name)
    gpu_device.poison(backend.device)
    built = Built.by(blueprint, backend.dtype, backend.device)
    reference = Built.by(blueprint, torch.float32, backend.device).model
    with heard() as complaints:
        same = SPLIT if backend.name == "fa2" else SAME
        ladder_of_rows = _Ladder(built, reference, Ways(backend, built), backend.device, same)
        yield from ladder_of_rows.climb(where, ladder(blueprint.max_length), deadline)
    if complaints:
        yield Check(where, "the log is quiet", "noted", f"{len(complaints)} warnings, the first: {complaints[0]}")


class _Ladder:
    def __init__(self, built: Built, reference: Model, ways: Ways, device: torch.device, same: Bound) -> None:
        self._limits = built.limits
        self._reference = reference
        self._ways = ways
        self._device = device
        self._eager = Tally("eager = float32", REFERENCE)
        self._replayed = Tally("replay = float32", REFERENCE)
        self._same = Tally("replay = eager, padded alike", same)
        self._no_graph: list[str] = []

    def climb(self, where: Where, rungs: tuple[Lengths, ...], deadline: Deadline) -> Iterator[Check]:
        left = list(rungs)
        while left and not deadline.is_over:
            self._try(left.pop(0))
        notes = [f"no time for {', '.join(map(text, left))}"] if left else []
        yield self._eager.check(where, *notes)
        if self._ways.graphing is None:
            yield Check(where, self._same.what, "skipped", "its launches follow the lengths: nothing can be captured")
            return
        if self._no_graph:
            notes.append(f"no graph for {', '.join(self._no_graph)}")
        for tally in (self._same, self._replayed):
            yield tally.check(where, *notes)

    def _try(self, lengths: Lengths) -> None:
        try:
            self._compare(lengths)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other batches can still be tried
            self._eager.fail(text(lengths), error)

    def _compare(self, lengths: Lengths) -> None:
        name = text(lengths)
        batch, other = draw(lengths, self._limits, seed=1), draw(lengths, self._limits, seed=2)
        expected = reference_rows(self._reference, batch, self._device)
        self._eager.compare(name, self._ways.eager(batch), expected)
        if self._ways.graphing is None:
            return
        # Other tokens come between, so that rows left over from a former run do not pass for those of a replay.
        self._ways.replayed(batch)
        self._ways.replayed(other)
        rows = self._ways.replayed(batch)
        if rows is None:
            self._no_graph.append(name)
            return
        self._replayed.compare(name, rows, expected)
        self._same.compare(name, rows, self._ways.eager_padded(batch))
