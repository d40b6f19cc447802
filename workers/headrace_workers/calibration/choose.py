"""The budgets that follow from what a step costs.

Knows the latency target and what a purse must hold. Does not know how the cost was measured, nor NATS. Pure.
"""

from dataclasses import dataclass
from typing import Literal

from headrace_workers.calibration.cost import Cost

Reason = Literal["target", "saturated", "longest", "measured"]

# What a worker does where no calibration says better. A step of so many tokens is past the point where more of them
# gain speed on two cores. A purse counts whole messages, and that of a short query is ten times its token ids.
DEFAULT_STEP_TOKENS = 2048
DEFAULT_STEPS_IN_HAND = 8
# Of the best rate: what counts as saturated, and past what a larger step only makes online requests wait.
_SATURATED = 0.9
_ENOUGH = 0.99
# Tokens of a step are padded to multiples of 64 where graphs are replayed.
_ROUND = 64
# From "there is room" to "the chunks are here": the pull, the broker, decoding; across a data centre and back.
_PULL_MS = 50.0
# No device takes less for a token, in ms, nor a model for a pair of tokens as a share of that.
_NOTHING = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a worker does by a calibration.

    Attributes:
        target_ms: the longest that an online request may be made to wait behind what the device has in hand.
        step_tokens: tokens of one step at most.
        reason: why not more: "target", the wait would be longer; "saturated", it would gain nothing; "measured",
            nothing larger was measured; or why not less: "longest", one sequence of the longest needs them.
        wait_ms: how long the longest such wait is.
        steps_ahead: steps that the device may have in hand at once, which is what that wait is made of.
        pull_tokens: what the device does while a pull is under way.
        saturation_tokens: the fewest that reach 90 % of the best rate, in short sequences; None where more tokens
            cost nothing.
        best_rate: tokens/s that ever more tokens in short sequences come near to; None where they cost nothing.
        quadratic_length: a sequence so long spends as much on attention's quadratic part as on all that is linear; None
            where there is no quadratic part.
    """

    target_ms: float
    step_tokens: int
    reason: Reason
    wait_ms: float
    steps_ahead: int
    pull_tokens: int
    saturation_tokens: int | None
    best_rate: float | None
    quadratic_length: int | None

    def __post_init__(self) -> None:
        if self.step_tokens < 1 or self.steps_ahead < 1 or self.pull_tokens < 0:
            raise ValueError(
                f"step_tokens is {self.step_tokens}, steps_ahead {self.steps_ahead}, pull_tokens {self.pull_tokens}: "
                "the first two must be at least 1, the last 0"
            )

    @property
    def meets_target(self) -> bool:
        """Whether no online request need wait longer than the target."""
        return self.wait_ms <= self.target_ms

    @property
    def budget_tokens(self) -> int:
        """Tokens in hand for steps of `step_tokens`."""
        return self.budget_for(self.step_tokens)

    def budget_for(self, step_tokens: int) -> int:
        """Tokens to have in hand, both classes together, so that the device never waits for a pull.

        Each class has half (decision 0006), and alone must do with it: the steps that the device has, the one that is
        packed meanwhile, and what it would do while the next pull is under way. Never less than without a calibration:
        a purse counts whole messages, so of short queries it holds a tenth of these tokens.
        """
        needed = 2 * ((self.steps_ahead + 1) * step_tokens + self.pull_tokens)
        return max(DEFAULT_STEPS_IN_HAND * DEFAULT_STEP_TOKENS, needed)


def choose(cost: Cost, *, max_length: int, target_ms: float, most_measured: int, steps_ahead: int = 1) -> Choice:
    """Pick budgets by the law.

    Args:
        cost: the law.
        max_length: tokens of the longest sequence: a step is chosen for when all are as long, the worst case.
        target_ms: the longest that an online request may be made to wait behind what the device has in hand.
        most_measured: tokens of the largest batch that was measured: beyond it the law is a guess.
        steps_ahead: steps that the device may have in hand at once.
    """
    step, reason = _step(cost, max_length, target_ms / steps_ahead, most_measured)
    return Choice(
        target_ms=target_ms,
        step_tokens=step,
        reason=reason,
        wait_ms=steps_ahead * cost.full_step_ms(step, max_length),
        steps_ahead=steps_ahead,
        pull_tokens=_pull_tokens(cost, step),
        saturation_tokens=None if cost.b_ms < _NOTHING else max(1, round(_tokens_at(cost, _SATURATED))),
        best_rate=None if cost.b_ms < _NOTHING else 1000 / cost.b_ms,
        quadratic_length=None if cost.c_ms <= _NOTHING * cost.b_ms else max(1, round(cost.b_ms / cost.c_ms)),
    )


def _step(cost: Cost, max_length: int, step_ms: float, most_measured: int) -> tuple[int, Reason]:
    """The least of all that bounds it, in multiples of 64; but one sequence of the longest at least."""
    per_token = cost.full_step_ms(1, max_length) - cost.a_ms
    bounds: dict[Reason, float] = {
        "measured": most_measured,
        "target": (step_ms - cost.a_ms) / max(per_token, _NOTHING),
    }
    if cost.b_ms >= _NOTHING:
        # An overhead that is measured as next to nothing must not make steps tiny: only the target may.
        bounds["saturated"] = max(DEFAULT_STEP_TOKENS, _tokens_at(cost, _ENOUGH))
    reason = min(bounds, key=lambda name: bounds[name])
    step = int(bounds[reason] // _ROUND * _ROUND)
    return (max_length, "longest") if step < max_length else (step, reason)


def _tokens_at(cost: Cost, share: float) -> float:
    """The tokens, in short sequences, at which a step reaches a share of the best rate, 1/b."""
    return share / (1 - share) * cost.a_ms / cost.b_ms


def _pull_tokens(cost: Cost, step: int) -> int:
    """What the device does in short sequences, at which it is fastest, while a pull is under way."""
    return round(_PULL_MS / max(cost.step_ms(step, 0) / step, _NOTHING))
