"""Shows a result again: on the terminal, as a page, or in the README between its markers.

It knows files. What a report looks like is reporting's.
"""

import argparse
import os
from pathlib import Path

from reporting import console as console_report
from reporting import markdown, readme
from result import Result
from rich.console import Console

_PIPED_WIDTH = 100


def show(result: Result, folder: Path) -> None:
    """Write the page into a folder, and print the report and where the page is."""
    page = markdown.write(result, folder)
    console = Console()
    if not console.is_terminal:
        # A table wider than the default of 80 is cut where output goes to a file or a pipe.
        console = Console(width=_PIPED_WIDTH)
    for part in console_report.report(result):
        console.print(part)
    print(os.path.relpath(page))


def main() -> None:
    """Read the flags, and do as they say."""
    parser = argparse.ArgumentParser(description="Show a result of `make bench` again.")
    parser.add_argument("result", type=Path, help="JSON that make bench wrote; the page goes beside it")
    parser.add_argument("--readme", type=Path, help="README to put its block into, between the markers")
    flags = parser.parse_args()
    try:
        result = Result.load(flags.result)
    except (OSError, ValueError) as error:
        parser.error(f"argument result: {error}")
    show(result, flags.result.parent)
    if flags.readme is not None:
        link = os.path.relpath(flags.result.with_suffix(".md"), flags.readme.parent)
        flags.readme.write_text(readme.update(flags.readme.read_text("utf-8"), result, link), "utf-8")


if __name__ == "__main__":
    main()
