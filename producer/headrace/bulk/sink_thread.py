"""The sink and what lies beside it, on a thread of their own: the event loop never waits for a disk or a database.

Knows that a sink may be unable for a while, and then be mended: a full disk, a database that restarts. Does not know
what is written.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.bulk.rows import Id
from headrace.bulk.sink import Sink, Stored
from headrace.errors import SinkError, SinkRefused

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Two minutes altogether; then the job ends, and goes on where it was when it is started again.
_PAUSES_S = (0.5, 1, 2, 4, 8, 15, 30, 60)


class SinkThread:
    """One thread, since not all libraries behind sinks may be called from several.

    Attributes:
        sink: for what runs on the thread.
        num_retries: writes and reads that were tried again.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.num_retries = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sink")

    async def run(self, work: Callable[[], T]) -> T:
        """Do something on the thread, once."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Do something that may be done again, until it works.

        Raises:
            SinkError: it did not for two minutes.
        """
        for pause_s in _PAUSES_S:
            try:
                return await self.run(work)
            except SinkRefused:
                raise
            except SinkError as error:
                logger.warning("the sink fails, to be tried again in %g s: %s", pause_s, error)
                self.num_retries += 1
                await asyncio.sleep(pause_s)
        return await self.run(work)

    async def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What the sink has of these ids.

        Raises:
            SinkError: it cannot be read.
        """
        return await self.write(lambda: self.sink.lookup(ids))

    async def close(self) -> None:
        """Close the sink, and end the thread."""
        try:
            await self.run(self.sink.close)
        except SinkError as error:
            logger.warning("the sink could not be closed, which loses nothing: %s", error)
        finally:
            self._thread.shutdown(wait=False)
