"""The workers of the fleet, as operators reach them: who is there, and drain, resume and status of one.

Knows NATS's micro protocol (ADR-32) from the asking side. Does not know what draining is, nor how it is shown.
"""

import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator

from headrace_contracts import DecodeError, subjects
from headrace_contracts.control import MAX_WAIT_MS, SERVICE, Status, Verb, decode_status, encode_request
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from headrace.errors import HeadraceError
from headrace.reach import failure

logger = logging.getLogger(__name__)

# Nobody knows how many will answer. A worker whose cores are busy takes some tenths of a second.
_FIRST_S, _NEXT_S = 2.0, 0.5
_ANSWER_S = 5.0


class WorkerNotThere(HeadraceError):
    """Raised when no worker of the name is there."""


class NotTold(HeadraceError):
    """Raised when a worker does not do what it is told, or does not answer; the text says why."""


class Workforce:
    """Asks workers. All methods raise ConnectionFailed when nats-server does not answer, AccessDenied if it refuses."""

    def __init__(self, nats: NatsClient) -> None:
        self._nats = nats

    async def all(self) -> list[Status]:
        """What all workers that are there say of themselves, in order of model and name.

        It takes half a second at least: silence is how one knows that there are no more. A worker whose status cannot
        be read is left out, and logged.
        """
        found = [status async for status in self._statuses()]
        return sorted(found, key=lambda status: (status.model, status.worker))

    async def tell(self, worker: str, verb: Verb, wait_ms: int = 0) -> Status:
        """Tell one worker something, and return what it says of itself then.

        Args:
            worker: its name.
            verb: drain, resume or status.
            wait_ms: a worker that drains answers when it is done, or after this time; 0 … MAX_WAIT_MS.

        Raises:
            WorkerNotThere: no worker of that name is.
            NotTold: it does not do it, or does not answer.
        """
        subject, body = subjects.control(worker, verb), encode_request(wait_ms)
        try:
            answer = await self._nats.request(subject, body, timeout=_ANSWER_S + wait_ms / 1000)
        except NoRespondersError as error:
            raise WorkerNotThere(f"there is no worker {worker}") from error
        except (NatsTimeout, TimeoutError) as error:
            raise NotTold(f"{worker} does not answer within {_ANSWER_S:g} s") from error
        except NatsError as error:
            raise failure(f"could not ask {worker}", error) from error
        if (refusal := (answer.headers or {}).get("Nats-Service-Error")) is not None:
            raise NotTold(f"{worker}: {refusal}")
        try:
            return decode_status(answer.data)
        except DecodeError as error:
            raise NotTold(f"what {worker} answers cannot be read: {error}") from error

    async def drained(self, worker: str, wait_s: float) -> Status | None:
        """Drain a worker, and wait until it has; what it says then, or after the time. None where it ended meanwhile.

        Raises:
            WorkerNotThere: no worker of that name was there.
            NotTold: it does not do it, or does not answer.
        """
        deadline_s = time.monotonic() + wait_s
        status = await self.tell(worker, "drain")
        while status.state == "draining" and (left_s := deadline_s - time.monotonic()) > 0:
            try:
                status = await self.tell(worker, "drain", min(MAX_WAIT_MS, 1 + int(left_s * 1000)))
            except WorkerNotThere:
                return None
        return status

    async def _statuses(self) -> AsyncIterator[Status]:
        inbox = self._nats.new_inbox()
        try:
            # One answer first, of whoever is quickest: it tells that nobody is there, or that this user may not ask.
            with contextlib.suppress(NatsTimeout, TimeoutError):
                await self._nats.request(f"$SRV.PING.{SERVICE}", timeout=_FIRST_S)
            inflow = await self._nats.subscribe(inbox)
            await self._nats.publish(f"$SRV.STATS.{SERVICE}", reply=inbox)
            wait_s = _FIRST_S
            with contextlib.suppress(NatsTimeout, TimeoutError):
                while not _is_nobody(message := await inflow.next_msg(timeout=wait_s)):
                    wait_s = _NEXT_S
                    if (status := read_status(message.data)) is not None:
                        yield status
            await inflow.unsubscribe()
        except NoRespondersError:
            return
        except NatsError as error:
            raise failure("could not ask who works", error) from error


def _is_nobody(message: Msg) -> bool:
    """Whether the broker says that nobody listens."""
    return not message.data and (message.headers or {}).get("Status") == "503"


def read_status(data: bytes) -> Status | None:
    """The status in a worker's answer to STATS; None where there is none that can be read."""
    try:
        answer = json.loads(data)
        (status,) = (each["data"] for each in answer["endpoints"] if each["name"] == "status")
        return decode_status(json.dumps(status).encode())
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("a worker's status cannot be read, so it is left out: %s (%r)", error, data[:200])
        return None
