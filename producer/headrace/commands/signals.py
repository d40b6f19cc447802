"""Signals that end a subcommand which has started other programs.

Knows which signals. Does not know what is to be stopped: the contexts that started it do.
"""

import signal
from types import FrameType
from typing import NoReturn


def end_as_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP end this process as Ctrl-C does, so that its contexts stop what they started.

    A SIGHUP that is ignored, as under nohup, stays ignored.
    """
    # SIGINT is named too because a shell that starts this in the background has it ignored.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hang_up)


def _hang_up(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    # A terminal that closes says so twice, by the kernel and by the shell: the second must not cut the stopping short.
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
