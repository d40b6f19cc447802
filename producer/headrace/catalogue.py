"""The models of the fleet, as its workers have published them.

Knows the KV bucket of ModelSpecs and the object store of tokenizers. Does not know calls.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass

from headrace_contracts import DecodeError, InvalidName, ModelSpec, Task, decode_spec, topology
from headrace_contracts.subjects import model_name
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import KeyNotFoundError, NotFoundError
from nats.js.kv import KeyValue

from headrace.errors import ConnectionFailed, HeadraceError, InputError, ModelNotFound
from headrace.pairs import PairTokenizer
from headrace.tokens import TextTokenizer

logger = logging.getLogger(__name__)

_HOW_TO_START = "start a worker: headrace worker MODEL"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """One model that the fleet serves, ready for use.

    Attributes:
        spec: what it can do.
        texts: its tokenizer for texts.
        pairs: its tokenizer for pairs of a query and a document.
    """

    spec: ModelSpec
    texts: TextTokenizer
    pairs: PairTokenizer

    @classmethod
    def of(cls, spec: ModelSpec, tokenizer_json: str) -> "Model":
        """Make its tokenizers; raises what the Rust tokenizer raises."""
        texts = TextTokenizer(tokenizer_json, spec.max_length, include_prompt=spec.include_prompt)
        return cls(spec, texts, PairTokenizer(texts.rust, spec))


class Catalogue:
    """Reads models once and keeps them."""

    def __init__(self, nats: NatsClient) -> None:
        self._jetstream = nats.jetstream()
        self._models: dict[str, Model] = {}
        self._defaults: dict[Task, str] = {}
        self._reading = asyncio.Lock()

    async def specs(self) -> list[ModelSpec]:
        """What the fleet has published, by name."""
        try:
            bucket = await self._jetstream.key_value(topology.MODELS_BUCKET)
            found = [await self._spec(bucket, name) for name in await self._names()]
        except NotFoundError:
            return []
        except (NatsError, TimeoutError) as error:
            raise ConnectionFailed(f"could not read the models of the fleet: {error}") from error
        return [spec for spec in found if spec is not None]

    async def _names(self) -> list[str]:
        # Not KeyValue.keys: nats-py's watcher takes the bucket for empty when the values overtake its consumer info.
        info = await self._jetstream.stream_info(f"KV_{topology.MODELS_BUCKET}", subjects_filter=">")
        return sorted(subject.rsplit(".", 1)[-1] for subject in info.state.subjects or {})

    async def _spec(self, bucket: KeyValue, name: str) -> ModelSpec | None:
        try:
            return decode_spec((await bucket.get(name)).value or b"")
        except KeyNotFoundError:
            return None  # deleted; the bucket still remembers that
        except DecodeError as error:
            # Another program's, or a later version's: no reason to hide the others.
            logger.warning("the published ModelSpec of %r cannot be read: %s", name, error)
            return None

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

    async def _find(self, name: str | None, task: Task) -> Model:
        # One reader at a time: the calls of a burst share what the first one reads.
        async with self._reading:
            if name is None:
                # Settled once: which model a call uses must not change while a client lives.
                name = self._defaults[task] = self._defaults.get(task) or await self._only_name(task)
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
            key = model_name(name)
            bucket = await self._jetstream.key_value(topology.MODELS_BUCKET)
            spec = decode_spec((await bucket.get(key)).value or b"")
            store = await self._jetstream.object_store(topology.TOKENIZERS_BUCKET)
            tokenizer = (await store.get(spec.tokenizer)).data or b""
        except NotFoundError:  # the bucket, the key or the tokenizer
            names = ", ".join(spec.name for spec in await self.specs()) or "none"
            raise ModelNotFound(f"the fleet does not serve {name!r} (it serves: {names}): {_HOW_TO_START}") from None
        except InvalidName as error:
            raise InputError(f"model is {name!r}: {error}") from error
        except DecodeError as error:
            raise HeadraceError(f"the published ModelSpec of {name!r} cannot be read: {error}") from error
        except (NatsError, TimeoutError) as error:
            raise ConnectionFailed(f"could not read model {name!r} from the fleet: {error}") from error
        if hashlib.sha256(tokenizer).hexdigest() != spec.tokenizer:
            raise HeadraceError(f"the published tokenizer of {name!r} is not the one that its ModelSpec names")
        try:
            return Model.of(spec, tokenizer.decode())
        except Exception as error:  # the Rust tokenizer raises nothing narrower
            raise HeadraceError(f"the published tokenizer of {name!r} cannot be used: {error}") from error


def _unable(asked: list[ModelSpec], task: Task, fleet: list[ModelSpec]) -> InputError:
    """What to say when none of the models that were asked can do the task."""
    abilities = ", ".join(f"{spec.name} can {' and '.join(spec.tasks)}" for spec in asked)
    able = ", ".join(spec.name for spec in fleet if task in spec.tasks)
    advice = (
        f"say model={able} (--model on the command line)" if able else f"no model of the fleet can: {_HOW_TO_START}"
    )
    return InputError(f"{abilities}, not {task}: {advice}")
