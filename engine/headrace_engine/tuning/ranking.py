"""From the times of attention backends to rows of the table that `select.choose` reads.

Pure decisions. It knows times, and which order counts where times do not tell. It does not know how they were measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby
from statistics import geometric_mean

from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import PUBLISHED, Case, Row
from headrace_engine.tuning.mix import Batch

# Backends run one after the other, and meanwhile a device's clock may wander by as much.
_NOISE = 0.03


def rows(case: Case, batches: Sequence[Batch], times_ms: Mapping[str, Sequence[float]], day: date) -> tuple[Row, ...]:
    """Order backends by speed, for models of the case's head width on exactly its device.

    An engine runs all batches with one backend, so it is chosen for the mix: a backend's time is the geometric mean of
    its times over the batches that stand for models of a limit. So each batch counts for how many times faster one
    backend is than another there, and not for how long it takes: otherwise the longest texts, which are the rarest,
    would decide alone.

    Args:
        case: The device and the model measured.
        batches: The mix, by rising limits; see `mix`.
        times_ms: Of each backend that ran, its time for each batch, more than 0.
        day: Of the measurement.

    Returns:
        Rows by rising max_length, one for each run of limits with the same order; the last one reaches to the case's
        max_length, and models beyond it are in none. Empty where no backend ran.
    """
    capability = case.device.capability
    if not times_ms or capability is None:
        return ()
    limits = sorted({batch.limit for batch in batches} - {0})
    orders = [_order(replace(case, max_length=limit), batches, times_ms) for limit in limits]
    found = []
    for order, group in groupby(zip(orders, limits, strict=True), key=lambda pair: pair[0]):
        *_, (_, limit) = group
        row = Row(
            capabilities=(capability, (capability[0], capability[1] + 1)),
            head_dims=(case.head_dim, case.head_dim),
            max_length=limit,
            order=order,
            source=_source(
                case, order, _scores(limit, batches, times_ms), [b for b in batches if b.limit <= limit], day
            ),
        )
        found.append(row)
    return tuple(found)


def rank(scores: Mapping[str, float], preference: Sequence[str]) -> tuple[str, ...]:
    """Order names by score, lowest first; of those within 3 % of the lowest left, the one preferred comes first.

    Args:
        scores: More than 0.
        preference: Names in order; every name of `scores` among them.
    """
    left, order = dict(scores), []
    while left:
        bound = min(left.values()) * (1 + _NOISE)
        first = min((name for name in left if left[name] <= bound), key=preference.index)
        order.append(first)
        del left[first]
    return tuple(order)


def _order(case: Case, batches: Sequence[Batch], times_ms: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    return rank(_scores(case.max_length, batches, times_ms), _published(case))


def _published(case: Case) -> tuple[str, ...]:
    """All backends in the order that counts without a measurement."""
    capability = case.device.capability or (0, 0)
    row = next(row for row in PUBLISHED if row.fits(capability, case))  # the last one fits everything
    return tuple(dict.fromkeys((*row.order, *OBSTACLES)))


def _scores(limit: int, batches: Sequence[Batch], times_ms: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {
        name: geometric_mean([ms for batch, ms in zip(batches, found, strict=True) if batch.limit <= limit])
        for name, found in times_ms.items()
    }


def _source(case: Case, order: Sequence[str], scores: Mapping[str, float], batches: Sequence[Batch], day: date) -> str:
    figures = ", ".join(f"{name} {scores[name]:.3g} ms" for name in order)
    mixed = ", ".join(map(str, batches))
    return f"measured on {case.device.name}, {day.isoformat()}: {figures}, the geometric mean over {mixed} tokens"
