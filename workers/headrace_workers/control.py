"""Lets operators reach a worker: a micro service of NATS, which drains, takes work again and tells its status.

Knows NATS's micro protocol (ADR-32) as nats-py speaks it, so that `nats micro ls` and others of its tools see workers,
too. After a reconnection nats-py subscribes anew by itself. Does not know what draining is (worker.py).
"""

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Any, cast

from headrace_contracts import DecodeError, subjects
from headrace_contracts.api import in_words
from headrace_contracts.control import SERVICE, Status, decode_request, encode_status
from nats.errors import Error as NatsError
from nats.micro.request import Request, ServiceError
from nats.micro.service import EndpointStats, Service, ServiceConfig

from headrace_workers.errors import Stopping
from headrace_workers.status import status
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)

_BAD_REQUEST, _CONFLICT = "400", "409"
_CLOSE_S = 1.0


@contextlib.asynccontextmanager
async def reachable(worker: Worker, name: str) -> AsyncIterator[None]:
    """Answer operators while the context lasts.

    Args:
        worker: whom they ask for.
        name: of the worker.
    """
    control = Control(worker, name)
    await control.listen()
    try:
        yield
    finally:
        await control.close()


class Control:
    """What operators may ask of one worker."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker = worker
        self._name = name
        self._version = metadata.version("headrace")
        self._began_s = time.monotonic()
        self._waiting: set[asyncio.Task[None]] = set()
        self._is_closing = asyncio.Event()
        spec = worker.spec
        self._service = Service(
            worker.broker.nats,
            ServiceConfig(
                name=SERVICE,
                version=_semantic(self._version),
                description=f"A worker of Headrace that serves {spec.name}",
                metadata={"worker": name, "model": spec.name, "fingerprint": spec.fingerprint},
                stats_handler=self._stats,
            ),
        )

    async def listen(self) -> None:
        """Be there for requests from now on; without a connection, as soon as there is one."""
        handlers = {"drain": self._drain, "resume": self._resume, "status": self._tell}
        try:
            for verb, handler in handlers.items():
                subject = subjects.control(self._name, verb)  # type: ignore[arg-type] # the keys above are verbs
                await self._service.add_endpoint(name=verb, subject=subject, handler=handler, metadata={})
            await self._service.start()
        except (NatsError, OSError) as error:
            # It ends with a PING, which a broker that has just gone does not answer. All is subscribed by then.
            logger.warning("operators may not reach this worker yet: %s", in_words(error))

    async def close(self) -> None:
        """Be there no longer: whoever asks from now on hears of the broker at once that nobody is."""
        # Who waits for a drain is told how it ended, and not left to a timeout.
        self._is_closing.set()
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_CLOSE_S)
        # Without a connection there is nobody to tell.
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._service.stop()

    async def _drain(self, request: Request) -> None:
        wait_ms = _read(request).wait_ms
        self._worker.drain()
        if self._worker.state == "drained" or not wait_ms:
            await self._answer(request)
            return
        # Not here: others who ask for the same would wait behind this one.
        task = asyncio.create_task(self._answer_when_drained(request, wait_ms / 1000))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _resume(self, request: Request) -> None:
        _read(request)
        try:
            self._worker.resume()
        except Stopping as error:
            raise ServiceError(_CONFLICT, str(error)) from error
        await self._answer(request)

    async def _tell(self, request: Request) -> None:
        _read(request)
        await self._answer(request)

    async def _answer_when_drained(self, request: Request, wait_s: float) -> None:
        ends = [asyncio.ensure_future(each) for each in (self._worker.drained(), self._is_closing.wait())]
        try:
            await asyncio.wait(ends, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        with contextlib.suppress(NatsError, OSError):  # whoever asked is gone with the connection, or asks again
            await self._answer(request)

    async def _answer(self, request: Request) -> None:
        await request.respond(encode_status(self._status()))

    def _stats(self, endpoint: EndpointStats) -> dict[str, Any] | None:
        """What `$SRV.STATS` tells of an endpoint besides: of `status`, what it would answer."""
        if endpoint.name != "status":
            return None
        return cast("dict[str, Any]", json.loads(encode_status(self._status())))

    def _status(self) -> Status:
        uptime_s = time.monotonic() - self._began_s
        return status(self._worker, name=self._name, version=self._version, uptime_s=uptime_s)


def _read(request: Request) -> Any:
    try:
        return decode_request(request.data)
    except DecodeError as error:
        # It travels in a header, and quotes what came.
        raise ServiceError(_BAD_REQUEST, " ".join(str(error).split())) from error


def _semantic(version: str) -> str:
    """The version as micro services must spell it: three numbers."""
    found = re.match(r"\d+\.\d+\.\d+", version)
    return "0.0.0" if found is None else found[0]
