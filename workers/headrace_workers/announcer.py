"""Tells the other workers of a model that this one is there, hears them, and sets the limits where that falls to it.

Knows the subject and the one timer. Who is there is worked out in fleet.py, what a worker does in rate.py, what may be
queued in admission.py.
"""

import asyncio
import contextlib
import logging
import time

from headrace_contracts import DecodeError, ModelSpec, Presence, decode_presence, encode_presence, subjects
from headrace_contracts.api import in_words
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace_workers.admission import Admission
from headrace_workers.broker import Broker
from headrace_workers.config import WorkerConfig
from headrace_workers.fleet import Fleet, View
from headrace_workers.gate import Gate
from headrace_workers.namesake import Namesake
from headrace_workers.patience import Patience
from headrace_workers.rate import Rate
from headrace_workers.weight import Weight

logger = logging.getLogger(__name__)


class Announcer:
    """One worker's part in its fleet.

    Attributes:
        rate: what this worker does.
        weight: of what comes to it.
        patience: of those from whom it comes.
    """

    def __init__(self, broker: Broker, spec: ModelSpec, config: WorkerConfig, calibrated: int | None) -> None:
        """Take what an announcer is made of.

        Args:
            broker: the connection.
            spec: of the model.
            config: settings of the worker.
            calibrated: tokens/s that a calibration says; None where there is none.
        """
        self.rate = Rate(calibrated)
        self.weight = Weight()
        self.patience = Patience()
        self._nats, self._link = broker.nats, broker.link
        self._subject = subjects.fleet(spec.name)
        self._worker = config.worker
        self._every_s = config.announce_s
        self._fleet = Fleet(config.worker, config.announce_s)
        self._gate = Gate(broker.nats, spec, Admission.of(spec, config))
        self._is_away = False
        self._turned = asyncio.Event()
        self._is_heard = False
        self._is_failing = False
        self._namesake = Namesake()

    @property
    def view(self) -> View:
        """The fleet now."""
        return self._fleet.view(time.monotonic(), self.rate.value)

    async def run(self) -> None:
        """Announce this worker until cancelled, and then that it leaves."""
        await self._nats.subscribe(self._subject, cb=self._on_message)
        try:
            while True:
                self._turned.clear()
                await (self._say_good_bye() if self._is_away else self._beat())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._every_s):
                        await self._turned.wait()
        finally:
            await self._say_good_bye()

    def leave(self) -> None:
        """Tell the others that this worker takes no more work, and no part in setting limits."""
        self._is_away = True
        self._turned.set()

    def come_back(self) -> None:
        """Announce this worker again. It listens for a while, as a new one does, before it sets limits."""
        self._is_away = False
        self._turned.set()

    async def _beat(self) -> None:
        self.rate.look(time.monotonic())
        was_heard, self._is_heard = self._is_heard, self._link.up.is_set()
        if not self._is_heard:
            return
        if not was_heard:
            self._fleet.listen(time.monotonic())
            self._namesake.listen()
        await self._say()
        view = self.view
        if view.sets_limits:
            await self._adjust(view)

    async def _adjust(self, view: View) -> None:
        try:
            # No longer than the others take this worker for alive.
            async with asyncio.timeout(self._every_s):
                await self._gate.adjust(view, self.weight.bytes_per_token, self.patience)
        except (NatsError, OSError) as error:
            if not self._is_failing:  # said once, not with every beat
                logger.warning(
                    "the limits of %s cannot be set, they stay as they are: %s", self._subject, in_words(error)
                )
            self._is_failing = True
        else:
            self._is_failing = False

    async def _say_good_bye(self) -> None:
        if self._is_heard:
            self._is_heard = False
            await self._say(leaving=True)

    async def _say(self, *, leaving: bool = False) -> None:
        every_ms = max(1, round(self._every_s * 1000))
        self._namesake.spoke()
        presence = Presence(worker=self._worker, every_ms=every_ms, rate=self.rate.value, leaving=leaving)
        with contextlib.suppress(NatsError, OSError):  # the connection is gone, and with it whoever would hear
            await self._nats.publish(self._subject, encode_presence(presence))

    async def _on_message(self, message: Msg) -> None:
        try:
            presence = decode_presence(message.data)
        except DecodeError as error:
            logger.debug("a message on %s cannot be read: %s", message.subject, error)
            return
        self._fleet.hear(presence, time.monotonic())
        if presence.worker == self._worker and self._namesake.heard():
            logger.warning(
                "another worker is named %s, too: only one of them hears a drain, and the fleet counts both as one. "
                "Names are host and process id: give its machine or container a host name of its own",
                self._worker,
            )
