"""The models of the fleet, as its workers have published them.

Knows the KV bucket of ModelSpecs and the object store of tokenizers. Does not know calls, nor which model they use.
"""

import hashlib
import logging
from dataclasses import dataclass

from headrace_contracts import DecodeError, ModelSpec, decode_spec, topology
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import KeyNotFoundError, NotFoundError
from nats.js.kv import KeyValue
from tokenizers import Tokenizer

from headrace.errors import HeadraceError
from headrace.pairs import PairTokenizer
from headrace.reach import failure
from headrace.stored_object import read_object
from headrace.tokens import TextTokenizer, rust_errors

logger = logging.getLogger(__name__)


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
    def of(cls, spec: ModelSpec, tokenizer_json: bytes) -> "Model":
        """Make its tokenizers.

        Raises:
            HeadraceError: they cannot be made of this file.
        """
        with rust_errors(f"the published tokenizer of {spec.name!r} cannot be used"):
            rust = Tokenizer.from_str(tokenizer_json.decode())
            texts = TextTokenizer(rust, spec.max_length, include_prompt=spec.include_prompt)
            return cls(spec, texts, PairTokenizer(texts.rust, spec))


class Published:
    """Reads ModelSpecs and tokenizers from NATS."""

    def __init__(self, nats: NatsClient) -> None:
        self._jetstream = nats.jetstream()

    async def specs(self) -> list[ModelSpec]:
        """What the fleet has published, by name.

        Raises:
            ConnectionFailed: it cannot be read.
        AccessDenied: it may not be read.
        """
        try:
            bucket = await self._jetstream.key_value(topology.MODELS_BUCKET)
            found = [await self._spec(bucket, name) for name in await self._names()]
        except NotFoundError:
            return []
        except (NatsError, TimeoutError) as error:
            raise failure("could not read the models of the fleet", error) from error
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

    async def model(self, name: str) -> Model | None:
        """The named model with its tokenizers; None if it is not published.

        Raises:
            ConnectionFailed: it cannot be read.
            HeadraceError: what was published cannot be used.
        """
        try:
            bucket = await self._jetstream.key_value(topology.MODELS_BUCKET)
            spec = decode_spec((await bucket.get(name)).value or b"")
        except NotFoundError:  # the bucket or the key
            return None
        except DecodeError as error:
            raise HeadraceError(f"the published ModelSpec of {name!r} cannot be read: {error}") from error
        except (NatsError, TimeoutError) as error:
            raise failure(f"could not read model {name!r} from the fleet", error) from error
        try:
            tokenizer = await read_object(self._jetstream, topology.TOKENIZERS_BUCKET, spec.tokenizer)
        except NotFoundError as error:
            raise HeadraceError(
                f"the tokenizer of {name!r} is not whole in the fleet: delete object {spec.tokenizer} of bucket "
                f"{topology.TOKENIZERS_BUCKET}, and start a worker"
            ) from error
        except (NatsError, TimeoutError) as error:
            raise failure(f"could not read model {name!r} from the fleet", error) from error
        if hashlib.sha256(tokenizer).hexdigest() != spec.tokenizer:
            raise HeadraceError(f"the published tokenizer of {name!r} is not the one that its ModelSpec names")
        return Model.of(spec, tokenizer)
