"""The event loop of clients.

It knows one choice.
"""

import asyncio


def runner() -> asyncio.Runner:
    """An event loop: uvloop's where it is installed, as servers and clients have it in production."""
    try:
        import uvloop  # noqa: PLC0415 - where it is
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
