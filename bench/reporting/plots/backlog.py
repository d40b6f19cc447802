"""What waiting work costs, against how much of it waits.

It knows the economics of a backlog. It knows no model.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from result import Backlog, Result

from reporting.plots import style


def backlog(result: Result) -> Figure | None:
    """Processor time of a chunk taken out, and the broker's memory; None with fewer than two depths."""
    found = () if result.economics is None else result.economics.backlog
    if len({each.chunks for each in found}) < 2:
        return None
    figure = style.canvas(9.6, 3.5)
    cpu, memory = figure.subplots(1, 2)
    cpu.set_title("Processor time of a chunk taken out, µs")
    _line(cpu, found, [each.broker_cpu_us for each in found], "broker", style.SERVER)
    _line(cpu, found, [each.worker_cpu_us for each in found], "worker", style.LIBRARY)
    memory.set_title("Memory of the broker, MiB")
    _line(memory, found, [each.broker_memory_mib for each in found], "", style.SERVER)
    for axes in (cpu, memory):
        axes.set_xscale("log")
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.margins(x=0.12)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel(f"chunks of {found[0].tokens:,} tokens that wait")
    return figure


def _line(axes: Axes, found: tuple[Backlog, ...], values: list[float], name: str, colour: str) -> None:
    axes.plot([each.chunks for each in found], values, color=colour, linewidth=2, marker="o", markersize=5)
    axes.annotate(
        name, (found[-1].chunks, values[-1]), xytext=(7, 0), textcoords="offset points", color=colour, va="center"
    )
