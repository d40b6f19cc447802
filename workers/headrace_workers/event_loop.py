"""Which event loop a worker runs on.

Knows one choice. Knows nothing of what runs on it.
"""

import asyncio
from collections.abc import Callable


def factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop where it is installed; None is asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - not made for Windows
    except ImportError:
        return None
    return uvloop.new_event_loop
