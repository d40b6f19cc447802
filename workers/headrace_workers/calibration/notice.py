"""What a worker says in its log about where its budgets come from.

Knows words and how loud they are. Pure.
"""

import logging

from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.config import WorkerConfig
from headrace_workers.spec import Budgets


def notice(chosen: Budgets, config: WorkerConfig, found: Calibration | Absence | None) -> tuple[int, str]:
    """A log level and a line.

    Args:
        chosen: the budgets that the worker has.
        config: what the operator set.
        found: where the rest comes from; None where nobody looked.
    """
    budgets = f"step budget {chosen.step_tokens} tokens, {chosen.budget_tokens:,} in hand"
    flags = {"--step-tokens": config.step_tokens, "--budget-tokens": config.budget_tokens}
    set_by = [flag for flag, value in flags.items() if value is not None]
    if found is None:
        return logging.INFO, f"{budgets}: {_flags(set_by) or 'by default'}"
    if len(set_by) == len(flags):
        return _all_set(f"{budgets}: {_flags(set_by)}", found)
    origin = f"{_flags(set_by)}, the rest " if set_by else ""
    if isinstance(found, Calibration):
        return logging.INFO, f"{budgets}: {origin}{_calibrated(chosen, config, found)}"
    if found.remedy is None:
        return logging.INFO, f"{budgets}: {origin}a guess, calibration is {found.reason}"
    return logging.WARNING, f"{budgets}: {origin}a guess: {found.reason}; run `{found.remedy}`"


def _all_set(words: str, found: Calibration | Absence) -> tuple[int, str]:
    """Budgets need no calibration where flags set them all; attention and graphs of a CUDA device still do."""
    if isinstance(found, Calibration) or found.remedy is None:
        return logging.INFO, words
    if found.is_cuda:
        return logging.WARNING, f"{words}; attention and graphs are a guess: {found.reason}; run `{found.remedy}`"
    return logging.INFO, f"{words}; {found.reason}"


def _calibrated(chosen: Budgets, config: WorkerConfig, found: Calibration) -> str:
    choice = found.choice
    words = f"calibrated {found.made} for a wait of {choice.target_ms:g} ms"
    if config.step_tokens is not None:
        return words
    wait_ms = choice.steps_ahead * found.cost.full_step_ms(chosen.step_tokens, found.max_length)
    if chosen.step_tokens > choice.step_tokens:
        return (
            f"{words}, which gave {choice.step_tokens}, but the fleet's chunks may have {chosen.step_tokens}, so "
            f"online requests may wait {wait_ms:.0f} ms; --max-chunk-tokens with --replace-spec makes chunks smaller, "
            "and clients that hold the old spec then get too_long until they read the new one"
        )
    return words if choice.meets_target else f"{words}, which one longest sequence alone misses: {wait_ms:.0f} ms"


def _flags(names: list[str]) -> str:
    return f"set by {' and '.join(names)}" if names else ""
