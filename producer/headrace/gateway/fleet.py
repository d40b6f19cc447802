"""What a gateway knows of the fleet, for a moment.

Knows the client, the workers that are heard, and the list of models, which it reads again when it is some seconds old:
no request adds a read of its own. Does not know HTTP.
"""

import asyncio
import time
from collections.abc import Sequence

from headrace_contracts import ModelSpec, Task

from headrace.client import Client
from headrace.errors import ConnectionFailed, HeadraceError, InputError, ModelNotFound
from headrace.survey.presences import Presences

_FRESH_S = 2.0
_READ_S = 2.0


class Fleet:
    """The models of a fleet, and the client to ask for them.

    Attributes:
        client: what asks.
        is_stopping: set once this gateway is told to stop.
    """

    def __init__(self, client: Client, presences: Presences) -> None:
        self.client = client
        self.is_stopping = False
        self._presences = presences
        self._specs: Sequence[ModelSpec] = ()
        self._read_at = -_FRESH_S
        self._reading: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[Sequence[ModelSpec]] | None = None

    @property
    def known(self) -> Sequence[str]:
        """Names of the models that were read last."""
        return [spec.name for spec in self._specs]

    async def specs(self) -> Sequence[ModelSpec]:
        """The models, as they were a moment ago; while the fleet cannot be asked, as they were before.

        Raises:
            ConnectionFailed: the fleet cannot be asked, and never could.
        """
        if time.monotonic() - self._read_at >= _FRESH_S:
            # All that wait share one reading; whoever goes meanwhile must not end it for the others.
            self._reading = self._reading or asyncio.create_task(self._read())
            await asyncio.shield(self._reading)
        return self._specs

    async def _read(self) -> None:
        try:
            self._specs = await self.now()
        except ConnectionFailed:
            if not self._specs:
                raise
        finally:
            self._reading = None
        self._read_at = time.monotonic()

    async def now(self) -> Sequence[ModelSpec]:
        """The models, asked for just now.

        Raises:
            ConnectionFailed: the fleet does not answer.
        """
        try:
            if self.client.is_connected:
                async with asyncio.timeout(_READ_S):
                    return await self.client.models()
        except TimeoutError:
            pass
        raise ConnectionFailed("nats-server does not answer: see whether it runs, and retry later")

    async def why_not_ready(self) -> str | None:
        """Why a request that came now would fail, or wait for nobody; None if it would be served.

        Anybody may ask, without a key: those who ask at the same time share one reading of the broker.
        """
        if self.is_stopping:
            return "this gateway is stopping: ask another one"
        try:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self.now())
            self._specs = specs = await asyncio.shield(self._asking)
        except ConnectionFailed as error:
            return str(error)
        if not specs:
            return "no worker has published a model"
        return self._presences.why_nobody([spec.name for spec in specs])

    async def choose(self, name: str | None, task: Task | None = None) -> ModelSpec:
        """The named model, or the only one that can do the task; for any task, the only one, or that embeds.

        Raises:
            ModelNotFound: none is served by that name.
            InputError: it cannot do the task, or several can and none was named.
            ConnectionFailed: see `specs`; also where none is served at all.
        """
        specs = await self.specs()
        if name is not None:
            return _named(specs, name, task)
        able = [spec for spec in specs if (task or "embed") in spec.tasks] or ([] if task else specs)
        if len(able) == 1:
            return able[0]
        if not specs:
            raise HeadraceError("the fleet serves no model now: start a worker, or retry later")
        if not able:
            raise InputError(f"model is missing, and no model of the fleet can {task}: it serves {_names(specs)}")
        raise InputError(f"model is missing: name one of {_names(able)}")


def _named(specs: Sequence[ModelSpec], name: str, task: Task | None) -> ModelSpec:
    found = next((spec for spec in specs if spec.name == name), None)
    if found is None:
        raise ModelNotFound(f"model is {name!r}: this fleet serves {_names(specs)}")
    if task is not None and task not in found.tasks:
        able = _names([spec for spec in specs if task in spec.tasks])
        raise InputError(f"model is {name!r}, which can {' and '.join(found.tasks)}: those that {task} are {able}")
    return found


def _names(specs: Sequence[ModelSpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"
