"""What the fleet publishes of its models: ModelSpecs in a KV bucket, tokenizers in an object store by their hash.

Knows both buckets. A spec is agreed on by the whole fleet: the first worker of a model writes it, later ones live by
its chunk limits or refuse to start. Does not know how clients use it.
"""

import logging
from dataclasses import replace

from headrace_contracts import DecodeError, ModelSpec, decode_spec, encode_spec, topology
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig
from nats.js.errors import (
    BucketNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
    ObjectNotFoundError,
)
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from headrace_workers.errors import SpecConflict

logger = logging.getLogger(__name__)


async def publish(
    jetstream: JetStreamContext, spec: ModelSpec, tokenizer_json: bytes, *, replicas: int, replace_spec: bool
) -> ModelSpec:
    """Agree with the fleet on the model's spec and make its tokenizer available.

    Returns:
        The spec to work by: this worker's, or the published one of the same model, whose chunk limits then hold.

    Raises:
        SpecConflict: another model is served under this name.
    """
    await _put_tokenizer(jetstream, spec.tokenizer, tokenizer_json, replicas)
    bucket = await _models(jetstream, replicas)
    if replace_spec:
        await bucket.put(spec.name, encode_spec(spec))
        return spec
    try:
        await bucket.create(spec.name, encode_spec(spec))
    except KeyWrongLastSequenceError:
        return _agree(spec, (await bucket.get(spec.name)).value or b"")
    logger.info("published the ModelSpec of %s", spec.name)
    return spec


def _agree(mine: ModelSpec, published: bytes) -> ModelSpec:
    """The published spec, if it describes the same model."""
    advice = "give this worker another --name, or --replace-spec once the old workers are stopped"
    try:
        theirs = decode_spec(published)
    except DecodeError as error:
        raise SpecConflict(f"the published ModelSpec of {mine.name} cannot be read ({error}): {advice}") from error
    if theirs.fingerprint != mine.fingerprint:
        raise SpecConflict(
            f"the fleet serves {theirs.source} ({theirs.fingerprint}) as {mine.name}, this worker has {mine.source} "
            f"({mine.fingerprint}): {advice}"
        )
    # Where this worker runs and what it computes in may differ; what producers build chunks by must not.
    return replace(theirs, source=mine.source, compute_dtype=mine.compute_dtype)


async def _models(jetstream: JetStreamContext, replicas: int) -> KeyValue:
    try:
        return await jetstream.key_value(topology.MODELS_BUCKET)
    except (BucketNotFoundError, NotFoundError):
        config = KeyValueConfig(bucket=topology.MODELS_BUCKET, history=5, replicas=replicas)
        return await jetstream.create_key_value(config)


async def _tokenizers(jetstream: JetStreamContext, replicas: int) -> ObjectStore:
    try:
        return await jetstream.object_store(topology.TOKENIZERS_BUCKET)
    except (BucketNotFoundError, NotFoundError):
        config = ObjectStoreConfig(bucket=topology.TOKENIZERS_BUCKET, replicas=replicas)
        return await jetstream.create_object_store(topology.TOKENIZERS_BUCKET, config)


async def _put_tokenizer(jetstream: JetStreamContext, name: str, data: bytes, replicas: int) -> None:
    store = await _tokenizers(jetstream, replicas)
    try:
        await store.get_info(name)
    except (NotFoundError, ObjectNotFoundError):
        await store.put(name, data)
        logger.info("published tokenizer %s", name)
