"""A calibration in words: a line for each thing that a person wants to know.

Knows units and sentences. Does not know colours, nor where the lines go. Pure.
"""

from collections.abc import Iterator

from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.choose import Choice

# Past these, a person should look again before trusting it.
_POOR_FIT, _RESTLESS = 0.15, 0.10


def title(calibration: Calibration) -> str:
    """What was measured."""
    threads = calibration.conditions.threads
    parts = [calibration.key.device, calibration.key.dtype]
    if threads:
        parts.append(f"{threads} thread{'s' * (threads > 1)}")
    return f"{calibration.model} on {', '.join(parts)}"


def law(calibration: Calibration) -> str:
    """What a step takes, in units that fit."""
    cost = calibration.cost
    return (
        f"{_time(cost.a_ms)} + {_time(cost.b_ms)} a token + {_time(cost.c_ms)} a pair of tokens that share a sequence"
    )


def summary(calibration: Calibration) -> Iterator[tuple[str, str]]:
    """What was found, each with the words it is told in."""
    choice = calibration.choice
    yield "a step takes", law(calibration)
    yield "fit", _fit(calibration)
    yield "saturation", _saturation(choice)
    yield "quadratic part", _quadratic(calibration)
    if calibration.table is not None:
        yield "attention", "; ".join(", ".join(row.order) for row in calibration.table) + ", fastest first"
    if calibration.max_graph_tokens is not None:
        yield "CUDA graphs", f"pay up to {calibration.max_graph_tokens:,} tokens"
    yield "step budget", f"{choice.step_tokens:,} tokens: {_reason(choice)}"
    yield "online waits", _wait(choice)
    yield (
        "in hand",
        f"{choice.budget_tokens:,} tokens, half for each class, to work on during a pull; more where chunks need it",
    )


def warnings(calibration: Calibration) -> Iterator[str]:
    """What a person should know before trusting it."""
    choice = calibration.choice
    if not choice.meets_target:
        yield (
            f"the target of {choice.target_ms:g} ms cannot be met: one sequence of {calibration.max_length:,} tokens, "
            f"the longest of this model, may make online requests wait {choice.wait_ms:,.0f} ms"
        )
    if calibration.spread is not None and calibration.spread > _RESTLESS:
        yield f"times of one batch differ by {calibration.spread:.0%}: something else computes here; measure without it"
    single = sum(point.num_times == 1 for point in calibration.points)
    if single:
        yield (
            f"{single} of {len(calibration.points)} batches were run once only, so how far their times differ is not "
            "known: set --budget-s higher to repeat them"
        )
    if calibration.cost.median_error > _POOR_FIT:
        yield f"half of the batches are off the law by {calibration.cost.median_error:.0%} or more: trust it less"
    if calibration.longest_measured < calibration.max_length:
        yield (
            f"the longest sequence measured has {calibration.longest_measured:,} tokens of {calibration.max_length:,}: "
            "what lies beyond is the law's guess; set --budget-s higher to measure more"
        )


def _fit(calibration: Calibration) -> str:
    cost = calibration.cost
    spread = "" if calibration.spread is None else f"; times of one batch differ by {calibration.spread:.1%}"
    return (
        f"half of {len(calibration.points)} batches within {cost.median_error:.1%} of the law, all within "
        f"{cost.worst_error:.0%}{spread}"
    )


def _saturation(choice: Choice) -> str:
    if choice.best_rate is None or choice.saturation_tokens is None:
        return "not reached: more tokens cost nothing yet"
    return f"at {choice.saturation_tokens:,} tokens: 90 % of {choice.best_rate:,.0f} tokens/s"


def _quadratic(calibration: Calibration) -> str:
    length = calibration.choice.quadratic_length
    if length is None:
        return f"none to be seen up to {calibration.longest_measured:,} tokens a sequence"
    words = f"as large as the linear one in sequences of {length:,} tokens"
    return words if length <= calibration.max_length else f"{words}, beyond the longest ({calibration.max_length:,})"


def _reason(choice: Choice) -> str:
    match choice.reason:
        case "target":
            return f"more of the longest sequences would take longer than {choice.target_ms / choice.steps_ahead:g} ms"
        case "saturated":
            return "more would gain less than 1 %, and only make online requests wait"
        case "measured":
            return "nothing larger was measured"
        case "longest":
            return "one sequence of the longest"


def _wait(choice: Choice) -> str:
    what = (
        "a running step" if choice.steps_ahead == 1 else f"the {choice.steps_ahead} steps that the device has in hand"
    )
    return f"{choice.wait_ms:,.0f} ms at most behind {what} (target {choice.target_ms:g} ms)"


def _time(ms: float) -> str:
    for factor, unit in ((1, "ms"), (1e3, "µs"), (1e6, "ns")):
        if ms * factor >= 1:
            return f"{ms * factor:.3g} {unit}"
    return f"{ms * 1e6:.2g} ns" if ms else "0"
