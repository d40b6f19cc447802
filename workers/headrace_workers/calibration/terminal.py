"""A calibration drawn in a terminal: tokens/s against the tokens of a batch.

Knows plotext, which the `plot` extra installs. Does not know how large the terminal is.
"""

import math
import os
from collections.abc import Sequence

import plotext
import typer

from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.series import Series, series

# As plotext and typer call them.
_COLOURS = (
    ("blue+", "bright_blue"),
    ("cyan+", "bright_cyan"),
    ("green+", "bright_green"),
    ("magenta+", "bright_magenta"),
    ("red+", "bright_red"),
    ("orange", "yellow"),
)
_Y_TICKS = 5
_X_TICK_COLUMNS = 9
_LEAST_COLUMNS = 30


def draw(calibration: Calibration, *, width: int, height: int) -> str:
    """Draw it in so many columns and lines, one line for each kind of batch: dots are measured, lines are the law.

    In colours, unless NO_COLOR is set (no-color.org). Where that is too narrow, say so instead.
    """
    if width < _LEAST_COLUMNS:
        return f"(too narrow for a plot: {width} columns of {_LEAST_COLUMNS})"
    is_colourless = "NO_COLOR" in os.environ
    lines = series(calibration)
    colours = [_COLOURS[index % len(_COLOURS)] for index in range(len(lines))]
    figure = plotext.figure  # there is one in a process: `clear` makes it new
    figure.clear()
    figure.plot_size(width, height)
    figure.theme("colorless")  # the terminal's own
    for (colour, _), line in zip(colours, lines, strict=True):
        places = [math.log2(tokens) for tokens in line.tokens]
        figure.draw(figure.signal(places, line.law_rates, marker=plotext.marker("braille", colour)).lines())
        figure.draw(figure.signal(places, line.rates, marker=plotext.marker("•", colour)))
    figure.title("tokens/s by tokens in the batch")
    top = _ticks(figure, lines, width)
    budget = math.log2(calibration.choice.step_tokens)
    figure.draw(figure.segment((budget, budget), (0, top), marker="┊"))
    items = [(f"• {line.kind}", colour) for (_, colour), line in zip(colours, lines, strict=True)]
    plain = (("⠒ the law", None), ("┊ the step budget", None))
    return f"{figure.build().string(colorless=is_colourless)}\n{_legend((*items, *plain), width, is_colourless)}"


def _legend(items: Sequence[tuple[str, str | None]], width: int, is_colourless: bool) -> str:
    """As many items a line as there is room for."""
    rows, room = [list[str]()], width
    for text, colour in items:
        if len(text) + 3 > room:
            rows.append([])
            room = width
        rows[-1].append(text if is_colourless or colour is None else typer.style(text, fg=colour))
        room -= len(text) + 3
    return "\n".join("   ".join(["", *row]) for row in rows)


def _ticks(figure: "plotext.figure", lines: Sequence[Series], width: int) -> float:
    """Set both axes; the top of the rates is returned."""
    tokens = [count for line in lines for count in line.tokens]
    first = math.floor(math.log2(min(tokens)))
    last = max(first + 1, math.ceil(math.log2(max(tokens))))  # all batches may be of one size
    step = math.ceil((last - first) * _X_TICK_COLUMNS / width)
    powers = range(first, last + 1, step)
    figure.ruler("x").lim(first, last)
    figure.ruler("x").ticks(list(powers), [f"{2**power:,}" for power in powers])
    top = max(rate for line in lines for rate in (*line.rates, *line.law_rates))
    rise = _round_up(top / _Y_TICKS)
    rates = [rise * part for part in range(math.ceil(top / rise) + 1)]
    figure.ruler("y").lim(0, rates[-1])
    figure.ruler("y").ticks(rates, [f"{rate:,.0f}" for rate in rates])
    return rates[-1]


def _round_up(value: float) -> float:
    """To the next round number: 1, 2, 5, 10, 20 and so on."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value)
