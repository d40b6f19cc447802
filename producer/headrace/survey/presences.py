"""Hears the workers of all models announce themselves, over any loss of the connection.

Knows the subject. Who is there is worked out in crew.py.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping

from headrace_contracts import ContractError, decode_presence, subjects
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headrace.errors import HeadraceError
from headrace.survey.crew import Crew, Roster

logger = logging.getLogger(__name__)


class NotHeardYet(HeadraceError):
    """Raised while workers may be there that have not spoken yet; the text says for how long."""


class Presences:
    """Listens for workers."""

    def __init__(self, nats: NatsClient, listen_s: float) -> None:
        """Everybody who is there has spoken after so many seconds."""
        self._nats = nats
        self._roster = Roster(listen_s)
        self._reconnects: int | None = None

    async def listen(self) -> None:
        """Begin; the subscription ends with the connection."""
        await self._nats.subscribe(subjects.FLEET_ALL, cb=self._hear)
        self._notice_reconnection()

    def crews(self, models: Collection[str]) -> Mapping[str, Crew]:
        """The crews of these models, and of all others that somebody works for.

        Raises:
            NotHeardYet: some may be there that were not heard yet.
        """
        self._notice_reconnection()
        now_s = time.monotonic()
        if missing_s := self._roster.missing_s(now_s):
            raise NotHeardYet(f"workers are heard one by one as they announce themselves: all in {missing_s:.1f} s")
        return self._roster.crews(models, now_s)

    def why_nobody(self, models: Collection[str]) -> str | None:
        """Why nobody works for any of these models, as far as was heard; None where somebody does."""
        now_s = time.monotonic()
        crews = self._roster.crews(models, now_s)
        if any(crews[model].members for model in models):
            return None
        if missing_s := self._roster.missing_s(now_s):
            return f"no worker was heard yet: those that are there say so within {missing_s:.1f} s"
        return f"no worker is there for {', '.join(models)}: start one, or see why it fell silent"

    async def all_heard(self) -> None:
        """Wait until everybody who is there has had the time to say so."""
        while missing_s := self._roster.missing_s(time.monotonic()):
            await asyncio.sleep(missing_s)  # silence is what it waits for
            self._notice_reconnection()

    async def _hear(self, message: Msg) -> None:
        self._notice_reconnection()
        try:
            presence = decode_presence(message.data)
            model = subjects.model_name(message.subject.removeprefix(subjects.FLEET_ROOT + "."))
        except ContractError as error:
            logger.debug("a message on %s cannot be read: %s", message.subject, error)
            return
        self._roster.hear(model, presence, time.monotonic())

    def _notice_reconnection(self) -> None:
        if self._reconnects != self._nats.stats["reconnects"]:
            self._reconnects = self._nats.stats["reconnects"]
            self._roster.listen(time.monotonic())
