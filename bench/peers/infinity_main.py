"""Infinity's own command, run so that it cannot outlive who started it: its end is the end of its standard input.

It knows that, and what to leave out of a log. All else is Infinity's command line.
"""

import logging
import os
import signal
import threading

from infinity_emb.cli import cli

_STDIN = 0


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock an ending interpreter wants.
    while os.read(_STDIN, 1024):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A line for each request would be paid for by each request.
    logging.getLogger("uvicorn.access").addFilter(lambda _: False)
    cli()
