"""The sink and what lies beside it, on a thread of their own: the event loop never waits for a disk or a database.

Knows that a sink may be unable for a while, and then be mended: a full disk, a database that restarts. Does not know
what is written.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.bulk.progress import Progress
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
    """

    def __init__(self, sink: Sink, progress: Progress | None = None) -> None:
        self.sink = sink
        self._progress = progress or Progress()
        self._trouble = ""
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
                done = await self.run(work)
            except SinkRefused:
                raise
            except SinkError as error:
                self._say(str(error))
                self._progress.retries += 1
                await asyncio.sleep(pause_s)
            else:
                self._say("")
                return done
        return await self.run(work)

    def _say(self, trouble: str) -> None:
        """Say what is new: all windows in flight find the same disk full, again and again."""
        if trouble and trouble != self._trouble:
            logger.warning("the sink fails, to be tried again for two minutes: %s", trouble)
        elif self._trouble and not trouble:
            logger.warning("the sink works again")
        self._trouble = trouble

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
