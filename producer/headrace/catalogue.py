"""Which model a call uses, of those that the fleet serves.

Knows names, tasks and defaults, and keeps what it has read. Does not know where models are read: published.py does.
"""

import asyncio
from typing import Protocol

from headrace_contracts import InvalidName, ModelSpec, Task
from headrace_contracts.subjects import model_name

from headrace.errors import InputError, ModelNotFound
from headrace.published import Model

_HOW_TO_START = "start a worker: headrace worker MODEL"


class Publications(Protocol):
    """Where the models of a fleet can be read; it raises ConnectionFailed where it cannot."""

    async def specs(self) -> list[ModelSpec]:
        """What the fleet has published, by name."""
        ...

    async def model(self, name: str) -> Model | None:
        """The named model, ready for use; None if it is not published."""
        ...


class Catalogue:
    """Reads models once and keeps them."""

    def __init__(self, published: Publications) -> None:
        self._published = published
        self._models: dict[str, Model] = {}
        self._defaults: dict[Task, str] = {}
        self._reading = asyncio.Lock()

    async def specs(self) -> list[ModelSpec]:
        """What the fleet has published, by name."""
        return await self._published.specs()

    async def model(self, name: str | None, task: Task) -> Model:
        """The named model, or the only one there is for the task.

        Raises:
            ModelNotFound: it is not published, or none was named and there is not exactly one.
            InputError: it is no model name, or the model cannot do the task.
        """
        if not isinstance(name, str | None):
            raise InputError(f"model is {name!r}: pass the name that it is served by, a str")
        known = self._models.get((self._defaults.get(task) if name is None else name) or "")
        model = known or await self._find(name, task)
        if task not in model.spec.tasks:
            raise _unable([model.spec], task, await self.specs())
        return model

    async def named(self, name: str) -> Model:
        """The named model, whatever it can do.

        Raises:
            ModelNotFound: it is not published.
            InputError: it is no model name.
        """
        if not isinstance(name, str):
            raise InputError(f"model is {name!r}: pass the name that it is served by, a str")
        async with self._reading:
            return await self._once(name)

    async def _find(self, name: str | None, task: Task) -> Model:
        # One reader at a time: the calls of a burst share what the first one reads.
        async with self._reading:
            if name is None:
                # Settled once: which model a call uses must not change while a client lives.
                name = self._defaults[task] = self._defaults.get(task) or await self._only_name(task)
            return await self._once(name)

    async def _once(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = await self._read(name)
        return self._models[name]

    def forget(self, name: str) -> None:
        """Read the model anew next time: the fleet has changed it."""
        self._models.pop(name, None)

    async def _only_name(self, task: Task) -> str:
        specs = await self.specs()
        names = [spec.name for spec in specs if task in spec.tasks]
        if not specs:
            raise ModelNotFound(f"the fleet serves no model: {_HOW_TO_START}")
        if not names:
            raise _unable(specs, task, specs)
        if len(names) > 1:
            raise ModelNotFound(
                f"the fleet serves {', '.join(names)}: say which with model= (--model on the command line)"
            )
        return names[0]

    async def _read(self, name: str) -> Model:
        try:
            model = await self._published.model(model_name(name))
        except InvalidName as error:
            raise InputError(f"model is {name!r}: {error}") from error
        if model is None:
            names = ", ".join(spec.name for spec in await self.specs()) or "none"
            raise ModelNotFound(f"the fleet does not serve {name!r} (it serves: {names}): {_HOW_TO_START}")
        return model


def _unable(asked: list[ModelSpec], task: Task, fleet: list[ModelSpec]) -> InputError:
    """What to say when none of the models that were asked can do the task."""
    abilities = ", ".join(f"{spec.name} can {' and '.join(spec.tasks)}" for spec in asked)
    able = ", ".join(spec.name for spec in fleet if task in spec.tasks)
    advice = (
        f"say model={able} (--model on the command line)" if able else f"no model of the fleet can: {_HOW_TO_START}"
    )
    return InputError(f"{abilities}, not {task}: {advice}")
