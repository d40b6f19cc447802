"""Tokens a second against the tokens of a batch: what the worker's budgets come from.

It knows the law t = a + b·tokens + c·Σlen² as it was fitted. It fits nothing.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from result import Calibrated, Ceiling, Point, Result

from reporting import words
from reporting.plots import style

# From light to dark: longer texts. None is a contender's.
_SHADES = ("#56a0d3", "#3f8fc5", "#2b7bba", "#1c5f9e", "#0b4580", "#08264f")


def calibration(result: Result) -> Figure | None:
    """Points and the law for each length of text, the budgets, and the ceiling; None if it was not measured."""
    found = result.calibrated
    if found is None or not found.points:
        return None
    figure = style.canvas(9.6, 4.6)
    axes = figure.add_subplot()
    _frame(axes, found, result.ceilings)
    lengths = sorted({point.length for point in found.points})
    ends = [_curve(axes, found, length, _shade(index, len(lengths))) for index, length in enumerate(lengths)]
    style.label_ends(axes, ends)
    _budget(axes, found.saturation_tokens, "saturation", "right")
    _budget(axes, found.step_tokens, "step budget", "left")
    return figure


def _frame(axes: Axes, found: Calibrated, ceilings: Sequence[Ceiling]) -> None:
    tokens = [point.tokens for point in found.points]
    ceiling = max(ceilings, key=lambda each: each.tokens_per_s, default=None)
    top = max(map(_rate, found.points))
    axes.set_xscale("log")
    axes.set_xlim(min(tokens) / 1.3, max(tokens) * 1.3)
    axes.set_ylim(0, 1.12 * max(top, ceiling.tokens_per_s if ceiling else 0))
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=20))
    axes.xaxis.set_minor_locator(NullLocator())
    thousands = FuncFormatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_major_formatter(thousands)
    axes.yaxis.set_major_formatter(thousands)
    axes.set_title("Tokens a second against the tokens of a batch")
    axes.set_xlabel("tokens of a batch")
    if ceiling:
        axes.axhline(ceiling.tokens_per_s, color=style.INK, linewidth=1.2)
        axes.annotate(
            f"matrix products alone: {ceiling.gflops:,.0f} GFLOP/s in {words.dtype(ceiling.dtype)}",
            (0.01, ceiling.tokens_per_s),
            xycoords=axes.get_yaxis_transform(),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8.5,
        )


def _curve(axes: Axes, found: Calibrated, length: int, mark: style.Mark) -> tuple[float, float, str, style.Mark]:
    """Draw one length's; return where it ends, its name and its look."""
    points = sorted((point for point in found.points if point.length == length), key=lambda point: point.tokens)
    last = points[-1].tokens
    xs = np.geomspace(points[0].tokens, last, 60)
    axes.plot(xs, [_law(found, x, length) for x in xs], color=mark.colour, linewidth=1.3)
    axes.plot([point.tokens for point in points], [*map(_rate, points)], linestyle="none", **mark.points(4.5))
    return last, _law(found, last, length), f"texts of {length:,} tokens", mark


def _law(found: Calibrated, tokens: float, length: int) -> float:
    """Tokens a second by the law, for texts of one length: then Σlen² is tokens times length."""
    return tokens * 1000 / (found.a_ms + tokens * (found.b_us / 1e3 + found.c_ns * length / 1e6))


def _rate(point: Point) -> float:
    return point.tokens * 1000 / point.ms


def _shade(index: int, count: int) -> style.Mark:
    shade = _SHADES[index * (len(_SHADES) - 1) // max(count - 1, 1)]
    return style.Mark(colour=shade, marker="o", is_hollow=False, is_ours=False)


def _budget(axes: Axes, tokens: int, name: str, side: Literal["left", "right"]) -> None:
    axes.axvline(tokens, color=style.SERVER, linewidth=1.2, linestyle=(0, (4, 3)), zorder=2)
    axes.annotate(
        f"{name}: {tokens:,}",
        (tokens, 0.03),
        xycoords=axes.get_xaxis_transform(),
        xytext=(5 if side == "left" else -5, 0),
        textcoords="offset points",
        color=style.SERVER,
        ha=side,
        fontsize=8.5,
    )
